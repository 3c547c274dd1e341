"""PoolCollector yields what Collector yields, in memory that belongs to the consumer."""

import gc
import time

import pytest
import torch
from building import load_fault_plugin
from collecting import (
    FRAMES,
    N,
    T,
    assert_equal_batches,
    categorical_actor,
    collect,
    normal_actor,
    random_actions,
    tilt_policy,
)
from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import StepCounter, TransformedEnv

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv
from torchrl_pool.collecting.recycler import Recycler

pytestmark = pytest.mark.filterwarnings(
    "ignore:split_trajs=True:UserWarning",
    "ignore:trajs_per_batch is set but:FutureWarning",
    "ignore:Using `add:UserWarning",
)

TASKS = [
    ("CartPole-v1", categorical_actor),
    ("CartPole-v1", tilt_policy),
    ("HalfCheetah-v5", normal_actor),
    ("FrozenLake-v1", categorical_actor),
    ("Pendulum-v1", random_actions),
    ("ALE/Pong-v5", random_actions),
]


@pytest.mark.parametrize(("task", "make_policy"), TASKS)
def test_yields_what_collector_yields(task, make_policy):
    batches = collect(PoolCollector, task, make_policy)
    assert_equal_batches(batches, collect(Collector, task, make_policy))
    assert batches[0]["next", "done"].any()
    assert batches[0]["observation"].is_contiguous()


def new_weights(collector):
    weights = [p + 0.1 for p in collector.policy.parameters()]
    for p, value in zip(collector.policy.parameters(), weights, strict=True):
        p.data.copy_(value)
    collector.update_policy_weights_()


@pytest.mark.parametrize(
    "options",
    [
        {"compact_obs": True},
        {"set_truncated": True},
        {"reset_at_each_iter": True},
        {"track_traj_ids": False},
        {"split_trajs": True},
        {"init_random_frames": FRAMES},
        {"track_policy_version": True},
        {"track_policy_version": True, "reset_at_each_iter": True},
        {"track_policy_version": True, "compact_obs": True},
        {"max_frames_per_traj": 5},
        {"device": "cpu"},
        {"storing_device": "cpu"},
        {"policy_device": "cpu"},
        {"exploration_type": "DETERMINISTIC"},
        {"trajs_per_batch": 4},
        {"postproc": lambda batch: batch.exclude("logits")},
    ],
    ids=lambda options: " ".join(options),
)
def test_options_of_collector(options):
    if "exploration_type" in options:
        from torchrl.envs.utils import ExplorationType

        options = {"exploration_type": ExplorationType[options["exploration_type"]]}
    got = collect(PoolCollector, "CartPole-v1", categorical_actor, change=new_weights, **options)
    expected = collect(Collector, "CartPole-v1", categorical_actor, change=new_weights, **options)
    assert_equal_batches(got, expected)


def test_info_entries_stand_for_transforms():
    info = {"info_keys": ("step_count", "episode_reward", "is_init")}
    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, env_options=info) for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    assert got[0]["next", "step_count"].max() == 11


@pytest.mark.parametrize(
    ("wrap", "env_options"),
    [(lambda env: TransformedEnv(env, StepCounter()), {}), (None, {"run_type_checks": True})],
    ids=["transformed", "run_type_checks"],
)
@pytest.mark.parametrize("options", [{}, {"init_random_frames": FRAMES}], ids=str)
def test_what_cannot_be_written_once_is_collected_as_by_collector(wrap, env_options, options):
    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, wrap=wrap, env_options=env_options, **options)
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    env = PoolEnv("CartPole-v1", N, **env_options)
    collector = PoolCollector(env if wrap is None else wrap(env), None, frames_per_batch=FRAMES)
    assert not collector.writes_once
    collector.shutdown()
    with pytest.raises(ValueError, match="double_buffered: expected a PoolEnv without transforms"):
        PoolCollector(env if wrap is None else wrap(env), None, frames_per_batch=FRAMES, double_buffered=True)


@pytest.mark.parametrize("extend_buffer", [True, False])
def test_replay_buffers_are_filled_as_by_collector(extend_buffer):
    stored = []
    for cls in (PoolCollector, Collector):
        buffer = ReplayBuffer(storage=LazyTensorStorage(3 * FRAMES, ndim=2 if extend_buffer else 1))
        options = {"replay_buffer": buffer, "extend_buffer": extend_buffer, "init_random_frames": FRAMES}
        assert collect(cls, "CartPole-v1", categorical_actor, **options) == [None] * 3
        stored.append(buffer[:])
    assert_equal_batches([stored[0]], [stored[1]])


# ---- memory


def test_batches_are_never_written_again():
    kept = [
        (batch, batch.clone())
        for batch in collect(PoolCollector, "CartPole-v1", categorical_actor, num_batches=4)
    ]
    for batch, copy in kept:
        assert (batch == copy).all()
        batch["observation"].zero_()  # nobody minds


def test_one_entry_that_is_kept_outlives_its_batch():
    env = PoolEnv("CartPole-v1", N, seed=0)
    collector = PoolCollector(env, None, frames_per_batch=FRAMES)
    views = []
    for batch in collector:
        view = batch["next", "observation"][1, 3:5]
        views.append((view, view.clone(), view.numpy()))
        if len(views) == 6:
            break
    for view, copy, array in views:
        assert torch.equal(view, copy)
        assert (array == copy.numpy()).all()
    collector.shutdown()


def addresses_of_observations(use):
    """Where six batches' observations lay, each used once and let go."""
    env = PoolEnv("CartPole-v1", N, seed=0)
    batches = iter(PoolCollector(env, None, frames_per_batch=FRAMES))
    addresses = set()
    for _ in range(6):
        batch = next(batches)
        addresses.add(batch["observation"].data_ptr())
        use(batch)
        del batch
        gc.collect()
    return addresses


def test_memory_that_was_let_go_is_used_again():
    assert len(addresses_of_observations(lambda batch: None)) == 1


def test_what_an_entry_shares_its_memory_with_outlives_it():
    kept = []

    def keep(batch):
        for part in (batch["observation"].detach()[2], torch.from_dlpack(batch["observation"])[1].numpy()):
            kept.append((part, torch.as_tensor(part).clone()))

    assert len(addresses_of_observations(keep)) == 6
    assert all(torch.equal(torch.as_tensor(part), copy) for part, copy in kept)


def test_memory_of_other_processes_is_left_to_them():
    """Who sends a batch to another process moves it to shared memory, and may let go of it then."""
    recycler = Recycler()
    tensor = recycler.empty("name", (4, 5), torch.float32)
    tensor.share_memory_()
    address = tensor.data_ptr()
    del tensor
    assert recycler.empty("name", (4, 5), torch.float32).data_ptr() != address


def test_what_is_yielded_can_be_resized():
    for cls in (PoolCollector, Collector):
        (batch,) = collect(cls, "CartPole-v1", random_actions, num_batches=1)
        copy = batch["observation"].clone()
        resized = batch["observation"].resize_(2 * N, T, 4)
        assert torch.equal(resized[:N], copy)
    recycler = Recycler()
    recycler.empty("name", (3, 4), torch.float32).resize_(30, 4)
    assert recycler.empty("name", (3, 4), torch.float32).untyped_storage().nbytes() == 3 * 4 * 4


# ---- groups


@pytest.mark.parametrize("groups", [True, 3, N])
@pytest.mark.parametrize("options", [{}, {"compact_obs": True}, {"track_policy_version": True}], ids=str)
def test_groups_give_the_same_data(groups, options):
    """The policy is a function of each row, so that its actions do not depend on the groups."""
    alone = collect(PoolCollector, "CartPole-v1", tilt_policy, **options)
    in_groups = collect(PoolCollector, "CartPole-v1", tilt_policy, double_buffered=groups, **options)
    assert_equal_batches(in_groups, alone)


def test_groups_of_random_actions():
    batches = collect(
        PoolCollector, "CartPole-v1", random_actions, double_buffered=2, init_random_frames=FRAMES
    )
    for batch in batches:
        assert (batch["action"].sum(-1) == 1).all()
        goes_on = ~batch["next", "done"][:, :-1, 0]
        assert torch.equal(
            batch["next", "observation"][:, :-1][goes_on], batch["observation"][:, 1:][goes_on]
        )


def test_too_many_groups():
    with pytest.raises(ValueError, match=f"double_buffered: expected at most {N} groups, got {N + 1}"):
        PoolCollector(PoolEnv("CartPole-v1", N), None, frames_per_batch=FRAMES, double_buffered=N + 1)


def test_pool_steps_the_others_while_the_policy_chooses():
    env = PoolEnv("CartPole-v1", 4, seed=0, num_threads=2)
    actions = env.rand_action()["action"]
    in_flight = []

    def policy(tensordict):
        in_flight.append([])
        for i in range(4):
            try:
                env.get_state(i)
            except RuntimeError:  # it is in flight
                in_flight[-1].append(i)
        return tensordict.set("action", actions[: len(tensordict)])

    collector = PoolCollector(
        env, policy, frames_per_batch=4 * 3, total_frames=4 * 6, double_buffered=True, trust_policy=True
    )
    in_flight.clear()  # of the calls at construction
    for _ in collector:
        assert in_flight == [[], [0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]
        in_flight.clear()


# ---- gradients


class Weighted(nn.Module):
    """Writes one entry that gradients flow through, and another."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, tensordict: TensorDictBase):
        with torch.enable_grad():
            tensordict["weighted"] = tensordict["observation"] * self.weight
        tensordict["plain"] = tensordict["observation"] * self.weight
        right = (tensordict["observation"][..., 2] > 0).long()
        return tensordict.set("action", torch.nn.functional.one_hot(right, 2))


@pytest.mark.parametrize("options", [{}, {"double_buffered": True}, {"storing_device": "cpu"}], ids=str)
def test_gradients_flow_back_to_what_the_policy_wrote(options):
    policies = []

    def make_policy(env):
        policies.append(Weighted())
        return policies[-1]

    got = collect(PoolCollector, "CartPole-v1", make_policy, **options)
    options.pop("double_buffered", None)
    expected = collect(Collector, "CartPole-v1", make_policy, **options)
    assert_equal_batches([batch.detach() for batch in got], [batch.detach() for batch in expected])
    for batch, other in zip(got, expected, strict=True):
        for key in batch.keys(True, True):
            assert batch[key].requires_grad == other[key].requires_grad == (key == "weighted"), key
        (gradient,) = torch.autograd.grad((batch["weighted"] * 3).sum(), policies[0].weight)
        assert torch.allclose(gradient, 3 * batch["observation"].sum((0, 1)), rtol=1e-5, atol=1e-5)


# ---- versions


def test_steps_carry_the_version_that_chose_their_action():
    env = PoolEnv("CartPole-v1", N, seed=0)
    policy = categorical_actor(env)
    collector = PoolCollector(env, policy, frames_per_batch=FRAMES, track_policy_version=True)
    for version, batch in zip(range(4), collector, strict=False):
        assert collector.writes_once
        chosen_by = batch["next", "policy_version"]
        assert chosen_by.dtype is torch.int64
        assert (collector.policy_version - chosen_by == 0).all()
        assert (chosen_by == version).all()
        collector.update_policy_weights_()
    collector.shutdown()


# ---- faults


@pytest.mark.parametrize("double_buffered", [False, True])
def test_a_failed_env_costs_one_batch(double_buffered):
    load_fault_plugin()
    env = PoolEnv(
        "Fault-v0", 4, seed=0, env_options=[{}, {}, {"fault": "throw", "at": 6}, {}], max_episode_steps=7
    )
    collector = PoolCollector(env, None, frames_per_batch=4 * 5, double_buffered=double_buffered)
    batches = iter(collector)
    assert next(batches)["next", "observation"][2, :, 1].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(EnvFailure, match=r"env 2 .* in step 6") as caught:
        next(batches)
    assert caught.value.env_index == [2]
    batch = next(iter(collector))  # every env begins a new episode, and a new trajectory
    assert (batch["next", "observation"][:, :, 1] == torch.arange(1.0, 6)).all()
    assert len(batch["collector", "traj_ids"].unique()) == 4
    collector.shutdown()


@pytest.mark.parametrize("double_buffered", [False, True])
def test_a_policy_that_raises_costs_one_batch(double_buffered):
    env = PoolEnv("CartPole-v1", 4, seed=0)
    actions = env.rand_action()["action"]
    calls = 0

    def policy(tensordict):
        nonlocal calls
        calls += len(tensordict)
        if calls == 4 * 14:
            raise KeyboardInterrupt
        return tensordict.set("action", actions[: len(tensordict)])

    collector = PoolCollector(
        env,
        policy,
        frames_per_batch=4 * 5,
        double_buffered=double_buffered,
        trust_policy=True,
        track_policy_version=True,
    )
    with pytest.raises(KeyboardInterrupt):
        list(collector)
    env.get_state()  # the pool is at rest
    batch = next(iter(collector))
    assert torch.equal(batch["observation"][:, 1:], batch["next", "observation"][:, :-1])
    collector.shutdown()


@pytest.mark.parametrize("double_buffered", [False, True])
def test_the_policy_must_write_the_same_entries_at_every_step(double_buffered):
    env = PoolEnv("CartPole-v1", 4, seed=0)
    actions = env.rand_action()["action"]
    for value in (None, torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.float64)):
        calls = 0

        def policy(tensordict: TensorDictBase, value=value):
            nonlocal calls
            calls += 1
            n = len(tensordict)
            out = tensordict.empty().set("action", actions[:n])
            entry = torch.zeros(1, 1) if calls < 15 else value
            return out if entry is None else out.set("extra", entry.expand(n, *entry.shape[1:]))

        collector = PoolCollector(
            env, policy, frames_per_batch=4 * 20, double_buffered=double_buffered, trust_policy=True
        )
        if value is None:  # the carrier still has the last one, as in Collector
            assert not next(iter(collector))["extra"].any()
        else:
            with pytest.raises(
                ValueError, match=r"'extra': expected torch.float32 .* at every step, as at first"
            ):
                next(iter(collector))
        collector.shutdown(close_env=False)


# ---- the rest of Collector's interface


def test_interruptor_cuts_a_batch_short():
    class Interruptor:
        def __init__(self):
            self.asked = 0

        def collection_stopped(self):
            self.asked += 1
            return self.asked >= 7

    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, interruptor=Interruptor(), num_batches=1)
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    assert (got[0]["collector", "traj_ids"][:, 7:] == -1).all()


def test_partial_reset():
    results = []
    for cls in (PoolCollector, Collector):
        env = PoolEnv("CartPole-v1", N, seed=0)
        torch.manual_seed(0)
        collector = cls(env, None, frames_per_batch=FRAMES)
        batches = iter(collector)
        first = next(batches)
        collector.reset(index=[1, 3])
        results.append([first, next(batches)])
        collector.shutdown()
    assert_equal_batches(*results)


def test_state_dict_and_seed():
    env = PoolEnv("CartPole-v1", N)
    policy = categorical_actor(env)
    collector = PoolCollector(env, policy, frames_per_batch=FRAMES, track_policy_version=True)
    assert collector.set_seed(3) == PoolEnv("CartPole-v1", N).set_seed(3)
    next(iter(collector))
    collector.update_policy_weights_()
    state = collector.state_dict()
    other = PoolCollector(
        PoolEnv("CartPole-v1", N), categorical_actor(env), frames_per_batch=FRAMES, track_policy_version=True
    )
    other.load_state_dict(state)
    assert other.policy_version == 1
    assert other.state_dict()["frames"] == FRAMES
    trained, loaded = (dict(c.policy.named_parameters()) for c in (collector, other))
    assert all(torch.equal(trained[name], loaded[name]) for name in trained)
    batch = next(iter(other))
    assert batch["collector", "traj_ids"].min() > next(iter(collector))["collector", "traj_ids"].min()
    collector.shutdown()
    other.shutdown()
    assert env.is_closed


def test_collects_in_the_background():
    buffer = ReplayBuffer(storage=LazyTensorStorage(10 * FRAMES, ndim=2))
    env = PoolEnv("CartPole-v1", N, seed=0)
    collector = PoolCollector(
        env, None, frames_per_batch=FRAMES, total_frames=5 * FRAMES, replay_buffer=buffer
    )
    collector.start()
    collector._thread.join()
    collector.async_shutdown()
    assert buffer.write_count == 5 * FRAMES or len(buffer) == 5 * FRAMES


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compact_obs": True, "track_policy_version": True},
        {"set_truncated": True, "track_traj_ids": False},
        {"postproc": lambda batch: batch.exclude("logits"), "storing_device": "cpu"},
    ],
    ids=lambda options: " ".join(options),
)
def test_fake_tensordict(options):
    fakes = []
    for cls in (PoolCollector, Collector):
        env = PoolEnv("CartPole-v1", N)
        collector = cls(
            env,
            categorical_actor(env),
            frames_per_batch=FRAMES,
            auto_register_policy_transforms=False,
            **options,
        )
        fakes.append(collector.fake_tensordict())
        collector.shutdown()
    assert_equal_batches([fakes[0]], [fakes[1]])


def test_env_is_made_by_a_callable():
    collector = PoolCollector(
        lambda: PoolEnv("CartPole-v1", N), None, frames_per_batch=FRAMES, total_frames=FRAMES
    )
    assert [tuple(batch.shape) for batch in collector] == [(N, T)]


@pytest.mark.parametrize("double_buffered", [False, True])
def test_an_env_that_hangs_costs_a_batch(double_buffered):
    """What its thread writes when it comes back lands in memory that nobody has any more."""
    load_fault_plugin()
    hangs = {"fault": "sleep", "at": 3, "seconds": 2.0}
    env = PoolEnv("Fault-v0", 4, seed=0, num_threads=2, step_timeout=0.5, env_options=[{}, hangs, {}, {}])
    collector = PoolCollector(env, None, frames_per_batch=4 * 2, double_buffered=double_buffered)
    batches = iter(collector)
    next(batches)
    with pytest.raises(EnvFailure, match=r"env 1 .* has not come back") as caught:
        next(batches)
    assert caught.value.hung == [1]
    while True:
        try:
            env.reset()
            break
        except RuntimeError:  # it still hangs
            time.sleep(0.05)
    batch = next(iter(collector))
    assert (batch["next", "observation"][:, :, 1] == torch.tensor([1.0, 2.0])).all()
    collector.shutdown()
