"""PoolCollector yields what Collector yields, in memory that belongs to the consumer."""

import io
import threading
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from collecting import (
    FRAMES,
    TASKS,
    N,
    assert_equal_batches,
    categorical_actor,
    collect,
    random_actions,
    tilt_policy,
)
from foreign_transforms import SaysWords
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import FiniteTensorDictCheck, TransformedEnv, VecNormV2
from torchrl.envs.utils import ExplorationType, set_exploration_type

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._collecting import collector as collector_module

pytestmark = pytest.mark.filterwarnings(
    "ignore:split_trajs=True:UserWarning",
    "ignore:trajs_per_batch is set but:FutureWarning",
    "ignore:Using `add:UserWarning",
)


@pytest.mark.parametrize(("task", "make_policy"), TASKS)
def test_yields_what_collector_yields(task, make_policy):
    batches = collect(PoolCollector, task, make_policy)
    assert_equal_batches(batches, collect(Collector, task, make_policy))
    assert batches[0]["next", "done"].any()
    assert batches[0]["observation"].is_contiguous()


def vecnorm_env(env):
    return TransformedEnv(env, VecNormV2(["observation"], reduce_batch_dims=True))


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class UnsavableEnv(gymnasium.Env):
    """Holds what cannot be pickled."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.lock = threading.Lock()

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


def new_weights(collector):
    weights = [p + 0.1 for p in collector.policy.parameters()]
    for p, value in zip(collector.policy.parameters(), weights, strict=True):
        p.data.copy_(value)
    collector.update_policy_weights_()


@pytest.mark.parametrize(
    "options",
    cases(
        default=[{"compact_obs": True}, {"reset_at_each_iter": True}, {"track_traj_ids": False}],
        also=[
            {"set_truncated": True},
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
    ),
    ids=lambda options: " ".join(options),
)
def test_options_of_collector(options):
    if "exploration_type" in options:
        from torchrl.envs.utils import ExplorationType

        options = {"exploration_type": ExplorationType[options["exploration_type"]]}
    got = collect(PoolCollector, "CartPole-v1", categorical_actor, change=new_weights, **options)
    expected = collect(Collector, "CartPole-v1", categorical_actor, change=new_weights, **options)
    assert_equal_batches(got, expected)


@pytest.mark.parametrize("use_buffers", [None, False, True])
@pytest.mark.parametrize(
    "kind", cases(default=[None, ExplorationType.DETERMINISTIC], also=[ExplorationType.RANDOM]), ids=str
)
@pytest.mark.parametrize("random_frames", [0, FRAMES + 2 * N])
def test_draws_at_construction_are_those_of_collector(use_buffers, kind, random_frames):
    options = {"use_buffers": use_buffers, "init_random_frames": random_frames}
    with set_exploration_type(kind):
        got, expected = (
            collect(cls, "CartPole-v1", categorical_actor, **options) for cls in (PoolCollector, Collector)
        )
    assert_equal_batches(got, expected)


def test_info_entries_stand_for_transforms():
    info = {"info_keys": ("step_count", "episode_reward", "is_init")}
    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, env_options=info) for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    assert got[0]["next", "step_count"].max() == 11


@pytest.mark.parametrize("options", cases([{}, {"init_random_frames": FRAMES}]), ids=str)
def test_what_cannot_be_written_once_is_collected_as_by_collector(options):
    def wrap(env):
        return TransformedEnv(env, SaysWords())

    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, wrap=wrap, **options)
        for cls in (PoolCollector, Collector)
    )
    assert [batch["next", "word"] for batch in got] == [batch["next", "word"] for batch in expected]
    assert_equal_batches(
        *([batch.exclude("word", ("next", "word")) for batch in one] for one in (got, expected))
    )
    collector = PoolCollector(wrap(PoolEnv("CartPole-v1", N)), None, frames_per_batch=FRAMES)
    assert not collector.writes_once
    collector.shutdown()


class SkipsSome(nn.Module):
    """Has only those envs stepped that are left of the middle."""

    def __init__(self, skips=lambda step: True):
        super().__init__()
        self.step, self.skips = 0, skips

    def forward(self, tensordict):
        self.step += 1
        if self.skips(self.step):
            tensordict["_step"] = tensordict["observation"][:, 0] < 0
        return tensordict.set("action", torch.tensor([[0, 1]]).expand(len(tensordict), 2).clone())


def test_steps_of_some_envs_that_a_policy_asks_for():
    got, expected = (
        collect(cls, "CartPole-v1", lambda env: SkipsSome(), use_buffers=False)
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    assert (got[0]["observation"] == got[0]["next", "observation"]).all(-1).any()


def test_a_policy_that_begins_to_ask_for_some_envs_is_refused():
    policy = SkipsSome(lambda step: step > 4)
    collector = PoolCollector(PoolEnv("CartPole-v1", N), policy, frames_per_batch=FRAMES)
    assert collector.writes_once
    with pytest.raises(ValueError, match="the policy has written '_step', which it did not"):
        next(iter(collector))


@pytest.mark.parametrize("make", cases([SaysWords, FiniteTensorDictCheck]))
def test_torchrls_transforms_are_for_all_envs_together(make):
    env = TransformedEnv(PoolEnv("CartPole-v1", N), make())
    with pytest.raises(ValueError, match="double_buffered: expected a PoolEnv whose transforms all have"):
        PoolCollector(env, None, frames_per_batch=FRAMES, double_buffered=True)


@pytest.mark.parametrize("extend_buffer", cases([True, False]))
def test_replay_buffers_are_filled_as_by_collector(extend_buffer):
    stored = []
    for cls in (PoolCollector, Collector):
        buffer = ReplayBuffer(storage=LazyTensorStorage(3 * FRAMES, ndim=2 if extend_buffer else 1))
        options = {"replay_buffer": buffer, "extend_buffer": extend_buffer, "init_random_frames": FRAMES}
        assert collect(cls, "CartPole-v1", categorical_actor, **options) == [None] * 3
        stored.append(buffer[:])
    assert_equal_batches([stored[0]], [stored[1]])


# ---- groups


@pytest.mark.parametrize("groups", cases(default=[True, 3], also=[N]))
@pytest.mark.parametrize("options", [{"compact_obs": True}, {}, {"track_policy_version": True}], ids=str)
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


def test_groups_are_chosen_by_time(monkeypatch):
    """Batches of two groups look quicker here."""
    clock = [0.0]
    monkeypatch.setattr(collector_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    env = PoolEnv("CartPole-v1", N)
    collector = PoolCollector(
        env, categorical_actor(env), frames_per_batch=FRAMES, total_frames=8 * FRAMES, double_buffered="auto"
    )
    run, seen = collector_module.Rollout.run, []

    def timed(rollout):
        seen.append(len(rollout._groups))
        clock[0] += 3.0 - len(rollout._groups)
        return run(rollout)

    monkeypatch.setattr(collector_module.Rollout, "run", timed)
    assert collector.num_groups is None
    assert sum(batch.numel() for batch in collector) == 8 * FRAMES
    assert seen == [1, 2, 1, 2, 1, 2, 2, 2]
    assert collector.num_groups == 2


@pytest.mark.parametrize("options", cases([{}, {"transform": True}]), ids=str)
def test_groups_are_not_chosen_where_there_is_no_choice(options):
    env = PoolEnv("CartPole-v1", 1 if not options else N)
    if options:
        env = env.append_transform(FiniteTensorDictCheck())
    collector = PoolCollector(env, None, frames_per_batch=FRAMES, double_buffered="auto")
    assert collector.num_groups == 1


@pytest.mark.parametrize("exploration_type", cases(default=["deterministic", "mode"], also=["random"]))
def test_exploration_types_have_names(exploration_type):
    options = {"exploration_type": exploration_type}
    batches = collect(PoolCollector, "CartPole-v1", categorical_actor, **options)
    assert_equal_batches(batches, collect(Collector, "CartPole-v1", categorical_actor, **options))


def test_batches_have_frames():
    for asked in (0, -1, 1.5):
        with pytest.raises((TypeError, ValueError), match="frames_per_batch: expected"):
            PoolCollector(PoolEnv("CartPole-v1", 2), None, frames_per_batch=asked)


def test_bad_numbers_of_groups_are_refused():
    for asked in ("often", 0, 1.5):
        with pytest.raises((TypeError, ValueError), match="double_buffered"):
            PoolCollector(PoolEnv("CartPole-v1", 2), None, frames_per_batch=4, double_buffered=asked)


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


class Weighted(nn.Module):
    """Writes an entry with a gradient."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, tensordict: TensorDictBase):
        with torch.enable_grad():
            tensordict["weighted"] = tensordict["observation"] * self.weight
        right = (tensordict["observation"][..., 2] > 0).long()
        return tensordict.set("action", torch.nn.functional.one_hot(right, 2))


@pytest.mark.parametrize("groups", cases([1, 2]))
def test_batches_hold_the_numbers_of_entries_with_gradients(groups):
    (batch, *_) = collect(PoolCollector, "CartPole-v1", lambda env: Weighted(), double_buffered=groups)
    assert torch.equal(batch["weighted"], batch["observation"])
    assert not batch["weighted"].requires_grad


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


def test_episodes_of_one_step_have_ids_of_their_own():
    env = PoolEnv("CartPole-v1", 2, max_episode_steps=1)
    (batch,) = PoolCollector(env, None, frames_per_batch=8, total_frames=8)
    assert len(batch["collector", "traj_ids"].unique()) == 8


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


@pytest.mark.parametrize("wrap", [lambda env: env, vecnorm_env], ids=["bare", "VecNorm"])
@pytest.mark.parametrize("through", cases([lambda state: state, through_a_file]), ids=["memory", "file"])
def test_a_collector_goes_on_from_its_state_dict_bit_for_bit(wrap, through):
    def make(seed):
        env = wrap(PoolEnv("CartPole-v1", N, seed=seed))
        policy = categorical_actor(PoolEnv("CartPole-v1", N))
        return PoolCollector(env, policy, frames_per_batch=FRAMES, track_policy_version=True)

    first, second = make(0), make(1)
    next(iter(first))
    first.update_policy_weights_()
    second.load_state_dict(through(first.state_dict()))
    batches = []
    for collector in (first, second):
        torch.manual_seed(5)
        batches.append([next(iter(collector)), next(iter(collector))])
        collector.shutdown()
    assert_equal_batches(*batches)
    assert (batches[0][0]["next", "policy_version"] == 1).all()


def test_a_state_dict_without_simulators_says_so():
    env = PoolEnv(UnsavableEnv, 2, num_workers=0)
    collector = PoolCollector(env, None, frames_per_batch=4)
    with pytest.warns(UserWarning, match="holds no simulators"):
        state = collector.state_dict()
    assert "pool" not in state
    collector.shutdown()


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
    cases(
        default=[{}, {"set_truncated": True, "track_traj_ids": False}],
        also=[
            {"compact_obs": True, "track_policy_version": True},
            {"postproc": lambda batch: batch.exclude("logits"), "storing_device": "cpu"},
        ],
    ),
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


@pytest.mark.parametrize("listed", cases([False, True]))
def test_env_is_made_by_a_callable(listed):
    def make():
        return PoolEnv("CartPole-v1", N)

    given = [make] if listed else make
    collector = PoolCollector(given, None, frames_per_batch=FRAMES, total_frames=FRAMES)
    assert [tuple(batch.shape) for batch in collector] == [(N, FRAMES // N)]


def test_several_callables_are_refused():
    with pytest.raises(ValueError, match="create_env_fn: expected one env or callable, got 2"):
        PoolCollector([lambda: PoolEnv("CartPole-v1", N)] * 2, None, frames_per_batch=FRAMES)


def test_a_policy_may_return_the_same_buffer_at_each_call():
    """A group that is in flight has copied what it was given."""

    class Buffered:
        def __init__(self):
            self.out, self.torque = torch.zeros(N, 1), 0.5

        def __call__(self, observation):
            out = self.out[: len(observation)].fill_(self.torque)
            self.torque = -self.torque
            return out

    policy = Buffered()
    module = TensorDictModule(policy, in_keys=["observation"], out_keys=["action"])
    env = PoolEnv("Pendulum-v1", N, num_threads=2, seed=0, step_timeout=60)
    collector = PoolCollector(env, module, frames_per_batch=50 * N, total_frames=-1, double_buffered=True)
    for _ in range(4):
        policy.torque = 0.5  # the first group gets 0.5 at each step, the second one the opposite
        action = collector.rollout()["action"]
        assert (action[: N // 2] == 0.5).all()
        assert (action[N // 2 :] == -0.5).all()
