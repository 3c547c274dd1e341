"""What TorchRL expects of a batched environment, in rollouts, transforms, batched envs and collectors."""

import copy
import gc
import inspect
import pickle
from functools import partial

import cloudpickle
import numpy
import pytest
import torch
import torchrl.envs
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs import (
    ConditionalSkip,
    DoubleToFloat,
    EnvBase,
    EnvCreator,
    FrameSkipTransform,
    GymEnv,
    ObservationNorm,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)
from torchrl.envs.utils import check_env_specs
from torchrl.modules import OneHotCategorical, ProbabilisticActor, TanhNormal

from torchrl_pool import MultiThreadedEnv, PoolEnv, list_tasks

TASKS = [*list_tasks("classic"), "Hopper-v5", "Reacher-v5"]
N = 4

cartpole = partial(PoolEnv, "CartPole-v1", N)
pendulum = partial(PoolEnv, "Pendulum-v1", N)
threaded_cartpole = partial(MultiThreadedEnv, N, "CartPole-v1")
MAKERS = pytest.mark.parametrize(
    "make", [cartpole, pendulum, threaded_cartpole], ids=["pool", "pool_continuous", "multi_threaded"]
)


def differing_keys(a, b):
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    return [key for key in a.keys(True, True) if not torch.equal(a[key], b[key])]


def assert_td_equal(a, b):
    assert a.batch_size == b.batch_size
    assert not differing_keys(a, b)


def fall_right(td):
    """A CartPole policy, so that episodes end after about ten steps, at other times in each env."""
    action = torch.zeros(*td.batch_size, 2, dtype=torch.int64)
    action[..., 1] = 1
    return td.set("action", action)


def lean(td):
    """A CartPole policy that depends on what it sees: episodes of very different lengths."""
    right = (td["observation"][..., 2] + td["observation"][..., 3] > 0.1).long()
    return td.set("action", torch.nn.functional.one_hot(right, 2))


# ---- construction ----------------------------------------------------------------------------------------


@MAKERS
def test_is_a_batched_env(make):
    env = make()
    assert isinstance(env, EnvBase)
    assert env.batch_size == torch.Size([N])
    assert env.batch_locked
    assert env.num_envs == N
    assert env.full_observation_spec["observation"].shape[0] == N
    assert env.reward_spec.shape == (N, 1)
    for key in ("done", "terminated", "truncated"):
        assert env.full_done_spec[key].shape == (N, 1)
        assert env.full_done_spec[key].dtype is torch.bool
    assert not env.full_observation_spec_unbatched.shape
    assert env.reward_spec_unbatched.shape == (1,)
    assert "CartPole-v1" in repr(env) or "Pendulum-v1" in repr(env)


def test_action_encodings():
    assert cartpole().action_spec == OneHot(2, shape=(N, 2), dtype=torch.int64)
    categorical = cartpole(categorical_action_encoding=True).action_spec
    assert categorical == Categorical(2, shape=(N,), dtype=torch.int64)
    assert pendulum().action_spec == Bounded(-2, 2, shape=(N, 1), dtype=torch.float32)


def test_one_hot_and_categorical_actions_agree():
    one_hot, categorical = cartpole(seed=0), cartpole(seed=0, categorical_action_encoding=True)
    a, b = one_hot.reset(), categorical.reset()
    for _ in range(50):
        number = torch.randint(2, (N,))
        a, a_root = one_hot.step_and_maybe_reset(a.set("action", torch.nn.functional.one_hot(number, 2)))
        b, b_root = categorical.step_and_maybe_reset(b.set("action", number))
        assert_td_equal(a["next"], b["next"])
        a, b = a_root, b_root


@pytest.mark.parametrize("device", [None, "cpu"])
def test_device_of_what_is_returned(device):
    env = cartpole(device=device)
    expected = None if device is None else torch.device(device)
    assert env.device == expected
    root = env.reset()
    td, next_root = env.step_and_maybe_reset(env.rand_action(root))
    for one in (root, td, td["next"], next_root, env.rollout(3)):
        assert one.device == expected
        assert all(value.device.type == "cpu" for value in one.values(True, True))


def test_moving_to_a_device_moves_specs_and_outputs():
    env = cartpole()
    env.reset()
    assert env.to("cpu") is env
    assert env.device == torch.device("cpu")
    assert env.observation_spec.device == torch.device("cpu")
    assert env.rollout(3).device == torch.device("cpu")
    check_env_specs(env)


def test_default_device_of_torch_is_ignored():
    with torch.device("meta"):
        env = cartpole(device="cpu")
        assert env.reset()["observation"].device.type == "cpu"


def test_spec_lock():
    env = cartpole()
    assert env.is_spec_locked
    with pytest.raises(RuntimeError, match="lock"):
        env.observation_spec["other"] = env.observation_spec["observation"].clone()
    unlocked = cartpole(spec_locked=False)
    unlocked.observation_spec["other"] = unlocked.observation_spec["observation"].clone()


# ---- check_env_specs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [2, 500])
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", TASKS)
def test_specs_describe_what_comes(task, device, limit):
    env = PoolEnv(task, N, device=device, max_episode_steps=limit)
    check_env_specs(env, break_when_any_done="both")
    check_env_specs(env, seed=0)
    env.close()
    for categorical in (False, True):
        env = MultiThreadedEnv(
            N,
            task,
            create_env_kwargs={"max_episode_steps": limit},
            categorical_action_encoding=categorical,
            device=device,
        )
        check_env_specs(env, break_when_any_done="both")
        env.close()


@pytest.mark.parametrize("limit", [2, 500])
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", TASKS)
def test_specs_describe_what_comes_under_transforms(task, device, limit):
    env = TransformedEnv(PoolEnv(task, N, device=device, max_episode_steps=limit), StepCounter())
    env.append_transform(RewardSum())
    check_env_specs(env, break_when_any_done="both")
    env.close()
    env = PoolEnv(task, N, device=device).append_transform(StepCounter(max_steps=limit))
    check_env_specs(env, break_when_any_done="both")
    env.close()


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", TASKS)
def test_specs_describe_what_comes_under_parallel_env(task, device):
    # Forking is as safe as it is quick here: no pool of this process is running.
    gc.collect()
    make = partial(PoolEnv, task, 3, device=device, max_episode_steps=2)
    env = ParallelEnv(2, make, mp_start_method="fork")
    try:
        assert env.batch_size == torch.Size([2, 3])
        check_env_specs(env, break_when_any_done="both")
    finally:
        env.close(raise_if_closed=False)


def test_wrong_specs_are_noticed():
    """That the checks above can fail."""
    env = cartpole(spec_locked=False)
    env.observation_spec = env.observation_spec.to(torch.float64)
    with pytest.raises(AssertionError):
        check_env_specs(env)


# ---- rollouts --------------------------------------------------------------------------------------------


@MAKERS
def test_rollout_names_and_consistency(make):
    data = make(seed=0).rollout(40, break_when_any_done=False)
    assert data.batch_size == (N, 40)
    assert data.names[-1] == "time"
    goes_on = ~data["next", "done"][:, :-1].squeeze(-1)
    assert torch.equal(data["next", "observation"][:, :-1][goes_on], data["observation"][:, 1:][goes_on])
    assert not data["done"].any()


def test_rollout_stops_at_the_first_done():
    env = cartpole(seed=0)
    stopped = env.rollout(100, fall_right, break_when_any_done=True)
    done = stopped["next", "done"].squeeze(-1)
    assert done[:, -1].any()
    assert not done[:, :-1].any()
    env.set_seed(0)
    going_on = env.rollout(100, fall_right, break_when_any_done=False)
    assert going_on["next", "done"].sum() > 5 * N
    assert_td_equal(going_on[:, : stopped.shape[1]], stopped)


def test_rollout_until_all_are_done():
    """Each env plays one episode; a row whose episode is over repeats its last step."""
    env = cartpole()
    root = env.reset(seed=5)
    data = env.rollout(
        500, lean, break_when_any_done=False, break_when_all_done=True, auto_reset=False, tensordict=root
    )
    lengths = data["next", "done"].squeeze(-1).int().argmax(-1) + 1
    assert data.shape[1] == lengths.max()
    assert lengths.unique().numel() > 1
    after = env.step(lean(env.step_mdp(data[:, -1])))
    for i, length in enumerate(lengths.tolist()):
        alone = PoolEnv("CartPole-v1", 1)
        episode = alone.rollout(500, lean, auto_reset=False, tensordict=alone.reset(seed=5 + i))[0]
        assert len(episode) == length
        assert_td_equal(data[i, :length], episode)
        for repeated in data[i, length:]:
            assert_td_equal(repeated, episode[-1])
        # Its simulator did not move while the others went on.
        one_more = alone.step(lean(alone.step_mdp(episode[-1:])))
        assert_td_equal(after[i], one_more[0])


def test_rollout_in_pieces_equals_one():
    one, pieces = pendulum(seed=0), pendulum(seed=0)
    actions = [one.rand_action()["action"] for _ in range(30)]
    expected = one.rollout(30, actions=actions)
    td = pieces.reset()
    for start in (0, 10, 20):
        piece = pieces.rollout(10, actions=actions[start : start + 10], auto_reset=False, tensordict=td)
        assert_td_equal(piece, expected[:, start : start + 10])
        td = pieces.step_mdp(piece[:, -1])


def test_rollout_with_set_truncated():
    data = pendulum().rollout(5, set_truncated=True)
    assert data["next", "truncated"][:, -1].all()
    assert data["next", "done"][:, -1].all()
    assert not data["next", "done"][:, :-1].any()


def test_rollout_not_contiguous():
    contiguous = cartpole(seed=0).rollout(30, fall_right, break_when_any_done=False)
    other = cartpole(seed=0).rollout(30, fall_right, break_when_any_done=False, return_contiguous=False)
    assert_td_equal(other, contiguous)


def test_rollout_with_a_module_as_policy():
    env = pendulum(seed=0)
    policy = TensorDictModule(torch.nn.Linear(3, 1), in_keys=["observation"], out_keys=["action"])
    torch.nn.init.uniform_(policy.module.weight, -0.1, 0.1)
    data = env.rollout(20, policy)
    assert data["action"].requires_grad
    assert not data["next", "reward"].requires_grad
    assert torch.allclose(data["action"], policy.module(data["observation"]))


@pytest.mark.parametrize("make", [cartpole, pendulum], ids=["one_hot", "tanh_normal"])
def test_rollout_with_torchrls_distributions(make):
    env = make(seed=0)
    width = env.observation_spec["observation"].shape[-1]
    if make is cartpole:
        net, in_keys = torch.nn.Linear(width, 2), ["logits"]
        kwargs = {"distribution_class": OneHotCategorical}
    else:
        net, in_keys = torch.nn.Sequential(torch.nn.Linear(width, 2), _LocScale()), ["loc", "scale"]
        kwargs = {"distribution_class": TanhNormal, "distribution_kwargs": {"low": -2.0, "high": 2.0}}
    module = TensorDictModule(net, in_keys=["observation"], out_keys=in_keys)
    policy = ProbabilisticActor(module, in_keys=in_keys, spec=env.full_action_spec_unbatched, **kwargs)
    data = env.rollout(50, policy, break_when_any_done=False)
    assert data.shape == (N, 50)
    assert set(in_keys) <= set(data.keys())


class _LocScale(torch.nn.Module):
    def forward(self, x):
        return 1_000 * x[..., :1], 1 + x[..., 1:].abs()  # mostly at the bounds


def test_policy_entries_are_carried_like_by_step_mdp():
    one_visit, plain = cartpole(seed=0), cartpole(seed=0)

    def policy(td):
        fall_right(td)
        td["count"] = td.get("count", torch.zeros(N)) + 1
        td["nested", "entry"] = td["count"] * 2
        td.set_non_tensor("name", "policy")
        td["next", "hidden"] = td["count"] * 3
        td["reward"] = torch.ones(N, 1)  # neither this nor the next goes on
        td["_reset"] = torch.zeros(N, 1, dtype=torch.bool)
        return td

    a, b = one_visit.reset(), plain.reset()
    for i in range(5):
        a, a_root = one_visit.step_and_maybe_reset(policy(a))
        b, b_root = EnvBase.step_and_maybe_reset(plain, policy(b))
        for td in (a, b):
            assert (td["next", "hidden"] == 3 * (i + 1)).all()
            assert (td["count"] == i + 1).all()
        for root in (a_root, b_root):
            assert root["name"] == "policy"
            assert "next" not in root
            assert "reward" not in root
            assert "_reset" not in root
        assert_td_equal(a.exclude("name"), b.exclude("name"))
        assert_td_equal(a_root.exclude("name"), b_root.exclude("name"))
        a, b = a_root, b_root
    # The nested container is a copy, so that a policy that adds to it does not change what was returned.
    before = set(a["nested"].keys())
    _, root = one_visit.step_and_maybe_reset(policy(a))
    root["nested", "later"] = torch.zeros(N)
    assert set(a["nested"].keys()) == before


def test_post_step_hooks_run():
    """As TorchRL's transforms install them: they may change or replace what step_and_maybe_reset returns."""
    for road in (cartpole.func.step_and_maybe_reset, EnvBase.step_and_maybe_reset):
        env = cartpole(seed=0)
        env._post_step_mdp_hooks = lambda td, root: (td.set("seen", torch.ones(N)), root.exclude("action"))
        td, root = road(env, fall_right(env.reset()))
        assert td["seen"].all()
        assert "action" not in root


def test_input_on_no_device_is_moved():
    env = cartpole(seed=0, device="cpu")
    expected = cartpole(seed=0)
    root = TensorDict(dict(fall_right(env.reset()).items()), [N])
    assert root.device is None
    td, next_root = env.step_and_maybe_reset(root)
    assert td.device == next_root.device == torch.device("cpu")
    assert "next" not in root
    assert_td_equal(td, expected.step(fall_right(expected.reset())))


def test_compiled_env_gives_the_same():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    kwargs = {"seed": 0, "max_episode_steps": 2}
    compiled, eager = cartpole(compile={"backend": backend}, **kwargs), cartpole(**kwargs)
    expected = eager.rollout(5, fall_right, break_when_any_done=False)
    assert_td_equal(compiled.rollout(5, fall_right, break_when_any_done=False), expected)
    assert expected["next", "done"].any()
    assert graphs  # it was compiled indeed


def test_lazy_stack_as_input():
    dense, lazy = cartpole(seed=0), cartpole(seed=0)
    a, b = dense.reset(), lazy.reset()
    for _ in range(30):
        fall_right(a)
        stacked = LazyStackedTensorDict.lazy_stack(list(b.set("action", a["action"]).unbind(0)), 0)
        a, a_root = dense.step_and_maybe_reset(a)
        b, b_root = lazy.step_and_maybe_reset(stacked)
        assert_td_equal(b["next"], a["next"])
        assert_td_equal(b_root.exclude("action"), a_root.exclude("action"))
        a, b = a_root, b_root.to_tensordict()


@MAKERS
def test_wrong_batch_size_is_refused(make):
    env = make()
    root = env.rand_action(env.reset())
    for step in (env.step, env.step_and_maybe_reset):
        with pytest.raises(RuntimeError, match=r"Expected a tensordict with shape==env\.batch_size"):
            step(root[: N - 1].clone())
    assert env.step(root)["next"].batch_size == (N,)


def test_run_type_checks_changes_no_result():
    checked, unchecked = cartpole(seed=0, run_type_checks=True), cartpole(seed=0)
    assert checked.run_type_checks
    check_env_specs(checked, break_when_any_done="both")
    checked.set_seed(1)
    unchecked.set_seed(1)
    a = checked.rollout(60, fall_right, break_when_any_done=False)
    assert_td_equal(a, unchecked.rollout(60, fall_right, break_when_any_done=False))


@pytest.mark.parametrize("step", ["step", "step_and_maybe_reset"])
def test_run_type_checks_notice_a_wrong_dtype(step):
    env = cartpole(run_type_checks=True, spec_locked=False)
    root = env.rand_action(env.reset())
    env.output_spec["full_reward_spec", "reward"].dtype = torch.int
    with pytest.raises(TypeError, match=r"expected reward\.dtype"):
        getattr(env, step)(root)


# ---- seeds -----------------------------------------------------------------------------------------------


@MAKERS
def test_seeds_determine_everything(make):
    def play(seed):
        env = make()
        env.set_seed(seed)
        torch.manual_seed(3)
        first = env.reset()
        return first, env.rollout(50, break_when_any_done=False)

    first, data = play(1)
    again_first, again_data = play(1)
    assert_td_equal(first, again_first)
    assert_td_equal(data, again_data)
    other_first, other_data = play(2)
    assert not torch.equal(first["observation"], other_first["observation"])
    assert not torch.equal(data["next", "observation"], other_data["next", "observation"])


def test_seed_argument_is_set_seed():
    a, b = cartpole(seed=4), cartpole()
    b.set_seed(4)
    assert_td_equal(a.reset(), b.reset())


def test_seeding_a_running_env_restarts_its_streams():
    env = cartpole(seed=0)
    first = env.rollout(30, fall_right, break_when_any_done=False)
    env.set_seed(0)
    assert_td_equal(env.rollout(30, fall_right, break_when_any_done=False), first)


def test_unseeded_envs_differ():
    a, b = cartpole().reset()["observation"], cartpole().reset()["observation"]
    assert torch.cat([a, b]).unique(dim=0).shape[0] == 2 * N


def test_static_seed_gives_all_envs_the_same():
    env = cartpole()
    assert env.set_seed(3, static_seed=True) == 3
    assert env.reset()["observation"].unique(dim=0).shape[0] == 1


def test_seeding_leaves_torchs_generator_alone():
    env = cartpole()
    before = torch.get_rng_state()
    env.set_seed(0)
    env.rollout(3, fall_right)
    assert torch.equal(torch.get_rng_state(), before)


# ---- masks -----------------------------------------------------------------------------------------------


def stepped(env, steps=5, seed=0):
    root = env.reset(seed=seed)
    for _ in range(steps):
        root = env.step_mdp(env.step(fall_right(root)))
    return root


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_partial_reset(shape):
    env, twin = cartpole(), cartpole()
    root, untouched = stepped(env), stepped(twin)
    mask = torch.tensor([True, False, False, True])
    before = root.clone()
    after = env.reset(root.clone().set("_reset", mask.view(shape)))
    assert "_reset" not in after
    assert torch.equal(after["observation"][~mask], before["observation"][~mask])
    assert (after["observation"][mask] != before["observation"][mask]).any(-1).all()
    assert (after["observation"][mask].abs() <= 0.05).all()
    # The others' simulators did not notice.
    td, expected = env.step(fall_right(after)), twin.step(fall_right(untouched))
    assert_td_equal(td["next"][~mask], expected["next"][~mask])
    # And each stream moved by one draw for the rows that were reset alone.
    a, b = env.reset()["observation"], twin.reset()["observation"]
    assert torch.equal(a[~mask], b[~mask])
    assert torch.equal(after["observation"][mask], b[mask])


def test_partial_reset_with_seed():
    env = cartpole()
    root = stepped(env)
    mask = torch.tensor([False, True, False, True])
    after = env.reset(root.clone().set("_reset", mask), seed=100)
    expected = cartpole().reset(seed=100)
    assert torch.equal(after["observation"][mask], expected["observation"][mask])
    assert torch.equal(after["observation"][~mask], root["observation"][~mask])


def test_partial_reset_of_done_envs_keeps_the_others_flags():
    env = cartpole(max_episode_steps=3)
    root = env.reset(seed=0)
    for _ in range(3):
        root = env.step(fall_right(root))["next"].exclude("reward")
    assert root["truncated"].all()
    mask = torch.tensor([True, False, True, False])
    after = env.reset(root.set("_reset", mask))
    for key in ("done", "truncated"):
        assert torch.equal(after[key].squeeze(-1), ~mask)
    assert not after["terminated"].any()


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_reset_of_no_env_does_nothing(shape):
    env, twin = cartpole(), cartpole()
    root, expected = stepped(env), stepped(twin)
    after = env.reset(root.set("_reset", torch.zeros(shape, dtype=torch.bool)))
    assert_td_equal(after, expected)
    assert_td_equal(env.step(fall_right(after)), twin.step(fall_right(expected)))
    assert torch.equal(env.reset()["observation"], twin.reset()["observation"])


def test_reset_without_mask_resets_all():
    env, twin = cartpole(), cartpole()
    root, _ = stepped(env), stepped(twin)
    after = env.reset(root)
    assert (after["observation"].abs() <= 0.05).all()
    full = torch.ones(N, dtype=torch.bool)
    assert torch.equal(after["observation"], twin.reset(TensorDict({"_reset": full}, [N]))["observation"])


def test_reset_does_not_change_its_input_when_it_fails():
    env = cartpole()
    root = stepped(env)
    before = root.clone()
    with pytest.raises(ValueError, match="_reset"):
        env._reset(root.clone().set("_reset", torch.ones(N, 2, dtype=torch.bool)))
    with pytest.raises(TypeError, match="options"):
        env.reset(root, options={"low": 0.0})
    assert_td_equal(root, before)


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
@pytest.mark.parametrize("road", ["step", "step_and_maybe_reset", "_step"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_skipped_envs_do_not_move(road, shape, device):
    env, twin = cartpole(device=device), cartpole(device=device)
    root, twin_root = stepped(env), stepped(twin)
    before = root.clone()
    mask = torch.tensor([False, True, True, False])
    fall_right(root).set("_step", mask.view(shape))
    if road == "step_and_maybe_reset":
        td, next_root = env.step_and_maybe_reset(root)
        after = td["next"]
        assert "_step" not in next_root
        assert torch.equal(next_root["observation"], after["observation"])
    else:
        after = env._step(root) if road == "_step" else env.step(root)["next"]
    expected = twin.step(fall_right(twin_root))["next"]
    assert_td_equal(after[mask], expected[mask])
    assert (after["reward"][~mask] == 0).all()
    for key in ("observation", "done", "terminated", "truncated"):
        assert torch.equal(after[key][~mask], before[key][~mask])
    # One more step of all: the skipped ones take the step that they left out.
    td = env.step(fall_right(TensorDict({}, [N], device=device)))
    assert torch.equal(td["next", "observation"][~mask], expected["observation"][~mask])


def test_skipped_envs_keep_their_done_flags():
    env = cartpole(max_episode_steps=3)
    root = env.reset(seed=0)
    for _ in range(3):
        root = env.step(fall_right(root))["next"].exclude("reward")
    mask = torch.tensor([False, True, True, False])
    after = env.step(fall_right(root).set("_step", mask))["next"]
    assert after["truncated"].all()
    assert after["done"].all()
    assert torch.equal(after["reward"].squeeze(-1) != 0, mask)


@pytest.mark.parametrize("road", ["step", "step_and_maybe_reset"])
def test_skipping_all_or_none(road):
    env, twin = cartpole(), cartpole()
    root, expected = stepped(env), stepped(twin)
    td = getattr(env, road)(fall_right(root.clone()).set("_step", torch.zeros(N, dtype=torch.bool)))
    td = td[0] if road == "step_and_maybe_reset" else td
    assert torch.equal(td["next", "observation"], root["observation"])
    assert not td["next", "reward"].any()
    td = getattr(env, road)(fall_right(root).set("_step", torch.ones(N, dtype=torch.bool)))
    if road == "step_and_maybe_reset":
        td, next_root = td
        assert "_step" not in next_root
    assert_td_equal(td["next"], twin.step(fall_right(expected))["next"])


def test_conditional_skip_equals_that_of_serial_env():
    def make(base):
        env = TransformedEnv(base, StepCounter())
        return env.append_transform(ConditionalSkip(lambda td: td["observation"][..., :1] > 0))

    ours = make(PoolEnv("CartPole-v1", 3))
    reference = make(SerialEnv(3, lambda: GymEnv("CartPole-v1")))
    for env in (ours, reference):
        env.set_seed(0)
    a, b = ours.reset(), reference.reset()
    skipped = 0
    for _ in range(40):
        a, b = fall_right(a), fall_right(b)
        a, a_root = ours.step_and_maybe_reset(a)
        b, b_root = reference.step_and_maybe_reset(b)
        for key in ("observation", "reward", "done", "step_count"):
            assert torch.equal(a["next", key], b["next", key])
        skipped += int((a["next", "reward"] == 0).sum())
        a, b = a_root.exclude("_step"), b_root.exclude("_step")
    assert skipped


# ---- transforms ------------------------------------------------------------------------------------------


def transformed(base):
    env = TransformedEnv(base, StepCounter(max_steps=20))
    env.append_transform(RewardSum())
    env.append_transform(ObservationNorm(loc=0.5, scale=2.0, in_keys=["observation"], out_keys=["normed"]))
    return env.append_transform(DoubleToFloat())


@pytest.mark.parametrize("task", TASKS)
def test_transformed_env_equals_transformed_serial_env(task):
    ours, reference = transformed(PoolEnv(task, 3)), transformed(SerialEnv(3, lambda: GymEnv(task)))
    assert ours.set_seed(1) == reference.set_seed(1)
    torch.manual_seed(1)
    a = ours.rollout(70, break_when_any_done=False)
    torch.manual_seed(1)
    b = reference.rollout(70, break_when_any_done=False)
    assert a["next", "done"].sum() >= 9
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in a.keys(True, True):
        torch.testing.assert_close(a[key], b[key])  # parity/ compares to the last bit


def test_terminal_observations_under_transforms():
    plain, env = cartpole(seed=0), transformed(cartpole(seed=0))
    a = plain.rollout(15, fall_right, break_when_any_done=False)
    b = env.rollout(15, fall_right, break_when_any_done=False)
    assert a["next", "done"].any()
    assert torch.equal(a["next", "observation"], b["next", "observation"])


@pytest.mark.filterwarnings("ignore:Support of VecNormV2 for containers with non-empty batch-size")
def test_partial_resets_do_not_distort_running_statistics():
    """A mean lies between the least and the greatest of what it is the mean of."""
    norm = VecNormV2(in_keys=["observation"], out_keys=["normed"], reduce_batch_dims=True)
    env = TransformedEnv(PoolEnv("CartPole-v1", 50, seed=0, low=0.2, high=0.205), norm)
    data = env.rollout(100, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    assert (done.any(0) & ~done.all(0)).any()
    positions = torch.stack([data["observation"], data["next", "observation"]])[..., 0]
    assert positions.min() > 0.19
    assert positions.min() < norm.loc["observation"].flatten()[0] < positions.max()


# ---- batched envs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [SerialEnv, partial(ParallelEnv, mp_start_method="fork")])
def test_pools_in_a_batched_env_equal_one_pool(batched):
    """The chain of seeds runs through the pools as through the envs of one."""
    gc.collect()
    one = PoolEnv("CartPole-v1", 4, device="cpu")
    many = batched(2, partial(PoolEnv, "CartPole-v1", 2, device="cpu"))
    try:
        assert many.set_seed(0) == one.set_seed(0)
        a = one.rollout(30, fall_right, break_when_any_done=False)
        b = many.rollout(30, fall_right, break_when_any_done=False)
        assert b.shape == (2, 2, 30)
        assert not differing_keys(a, b.flatten(0, 1))
    finally:
        many.close(raise_if_closed=False)


def test_spawned_parallel_env():
    env = ParallelEnv(2, EnvCreator(partial(PoolEnv, "Pendulum-v1", 3)), mp_start_method="spawn")
    try:
        assert env.batch_size == (2, 3)
        env.set_seed(0)
        data = env.rollout(10)
        assert data.shape == (2, 3, 10)
        expected = PoolEnv("Pendulum-v1", 6, seed=0).reset()["observation"]
        assert torch.equal(data["observation"][:, :, 0].flatten(0, 1), expected)
    finally:
        env.close(raise_if_closed=False)


def test_env_creator():
    creator = EnvCreator(lambda: PoolEnv("CartPole-v1", N, seed=0))
    a, b = creator(), creator()
    assert a is not b
    assert torch.equal(a.reset()["observation"], b.reset()["observation"])
    assert creator.meta_data.batch_size == (N,)


# ---- collectors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "cpu"])
def test_collector_equals_that_of_serial_env(device):
    def collect(env):
        collector = Collector(env, lean, frames_per_batch=3 * 40, total_frames=3 * 40 * 4)
        collector.set_seed(1)
        # Collectors reset at their construction; after the seed they must again.
        collector.reset()
        batches = [batch.clone() for batch in collector]
        collector.shutdown()
        return torch.cat(batches, -1)

    ours = collect(PoolEnv("CartPole-v1", 3, device=device))
    reference = collect(SerialEnv(3, lambda: GymEnv("CartPole-v1"), device=device))
    assert ours.shape == (3, 160)
    assert ours["next", "done"].any()
    assert not differing_keys(ours, reference)


@pytest.mark.parametrize("make", [cartpole, threaded_cartpole], ids=["pool", "multi_threaded"])
def test_collector_of_a_factory(make):
    collector = Collector(partial(make, seed=0), None, frames_per_batch=N * 25, total_frames=N * 100)
    frames, previous = 0, None
    for batch in collector:
        assert batch.shape == (N, 25)
        if previous is not None:
            goes_on = ~previous["next", "done"][:, -1].squeeze(-1)
            last = previous["next", "observation"][:, -1]
            assert torch.equal(last[goes_on], batch["observation"][:, 0][goes_on])
        previous = batch.clone()
        frames += batch.numel()
    collector.shutdown()
    assert frames == N * 100


def test_compact_collector_leaves_out_next_observations():
    collector = Collector(
        cartpole(seed=0), fall_right, frames_per_batch=N * 20, total_frames=N * 20, compact_obs=True
    )
    batch = next(iter(collector))
    collector.shutdown()
    expected = cartpole(seed=0).rollout(20, fall_right, break_when_any_done=False)
    assert ("next", "observation") not in batch.keys(True)
    assert torch.equal(batch["observation"], expected["observation"])
    assert torch.equal(batch["next", "done"], expected["next", "done"])


@pytest.mark.parametrize("cls", [MultiSyncCollector, MultiAsyncCollector])
def test_collectors_in_other_processes(cls):
    is_sync = cls is MultiSyncCollector
    collector = cls(
        [partial(cartpole, seed=i) for i in range(2)],
        fall_right,
        frames_per_batch=N * 20 * (2 if is_sync else 1),
        total_frames=N * 20 * 4,
        **({"cat_results": "stack"} if is_sync else {}),
    )
    try:
        first = []
        frames = 0
        for batch in collector:
            assert batch.shape == ((2, N, 20) if is_sync else (N, 20))
            goes_on = ~batch["next", "done"][..., :-1, 0]
            last = batch["next", "observation"][..., :-1, :]
            assert torch.equal(last[goes_on], batch["observation"][..., 1:, :][goes_on])
            assert not goes_on.all()
            first.extend(batch[..., 0]["observation"].reshape(-1, N, 4))
            frames += batch.numel()
        assert frames == N * 20 * 4
    finally:
        collector.shutdown()
    # Each worker's first batch begins as its pool does alone.
    for seed in range(2):
        expected = cartpole(seed=seed).reset()["observation"]
        assert any(torch.equal(observation, expected) for observation in first)


# ---- copies ----------------------------------------------------------------------------------------------


def through_pickle(env):
    return pickle.loads(pickle.dumps(env))


def through_cloudpickle(env):
    return cloudpickle.loads(cloudpickle.dumps(env))


@pytest.mark.parametrize("copy_by", [through_pickle, through_cloudpickle, copy.deepcopy])
@pytest.mark.parametrize(
    "make",
    [
        partial(cartpole, max_episode_steps=7, info_keys=("step_count",), categorical_action_encoding=True),
        partial(pendulum, device="cpu", env_options=[{"g": float(i)} for i in range(N)], num_threads=1),
        partial(threaded_cartpole, create_env_kwargs={"max_episode_steps": 5}, frame_skip=2),
        partial(threaded_cartpole, categorical_action_encoding=False, allow_done_after_reset=True),
        partial(cartpole, spec_locked=False, run_type_checks=True),
    ],
    ids=["options", "env_options", "frame_skip", "multi_threaded", "unlocked"],
)
def test_copies_of_an_unstarted_env(make, copy_by):
    env = make()
    env.set_seed(3)
    clone = copy_by(env)
    assert type(clone) is type(env)
    assert clone.specs == env.specs
    assert clone.device == env.device
    assert clone.is_spec_locked == env.is_spec_locked
    assert clone.run_type_checks == env.run_type_checks
    assert clone._allow_done_after_reset == env._allow_done_after_reset
    torch.manual_seed(0)
    expected = env.rollout(30, break_when_any_done=False)
    torch.manual_seed(0)
    assert_td_equal(clone.rollout(30, break_when_any_done=False), expected)


@pytest.mark.parametrize("copy_by", [through_pickle, through_cloudpickle, copy.deepcopy])
def test_a_running_env_cannot_be_copied(copy_by):
    env = cartpole()
    env.reset()
    with pytest.raises(TypeError, match="while it runs"):
        copy_by(env)
    env.rand_step()
    env.close()
    copy_by(env)


# ---- life ------------------------------------------------------------------------------------------------


@MAKERS
def test_close_and_reopen(make):
    env = make(seed=0)
    first = env.reset()
    assert not env.is_closed
    env.rand_step(env.reset())
    env.close()
    assert env.is_closed
    with pytest.raises(RuntimeError, match="reset"):
        env.rand_step(first)
    env.close()
    env.close(raise_if_closed=False)
    # Again as at first: with the seed that it was given.
    assert torch.equal(env.reset()["observation"], first["observation"])
    assert not env.is_closed
    env.rand_step()
    env.close()
    assert env.is_closed


def test_closing_a_transformed_env_closes_the_pool():
    base = cartpole()
    env = TransformedEnv(base, StepCounter())
    env.reset()
    env.close()
    assert base.is_closed
    assert env.rollout(3).shape == (N, 3)


def test_step_before_the_first_reset_is_refused():
    env = cartpole()
    for step in (env.step, env.step_and_maybe_reset):
        with pytest.raises(RuntimeError, match=r"reset\(\) before the first step"):
            step(env.rand_action())


# ---- MultiThreadedEnv ------------------------------------------------------------------------------------


def test_multi_threaded_env_takes_torchrls_arguments():
    def parameters(cls):
        return inspect.signature(cls.__init__).parameters

    ours, theirs = parameters(MultiThreadedEnv), parameters(torchrl.envs.MultiThreadedEnv)
    assert list(ours)[: len(theirs) - 1] == [name for name in theirs if name != "kwargs"]
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default
    documented = {
        "categorical_action_encoding",
        "disable_env_checker",
        "frame_skip",
        "device",
        "allow_done_after_reset",
    }
    assert all(f"{name} (" in torchrl.envs.MultiThreadedEnv.__doc__ for name in documented)
    assert documented < set(ours)


def test_multi_threaded_env_is_a_pool_env():
    kwargs = {"seed": 0, "num_threads": 1, "max_episode_steps": 9, "sutton_barto_reward": True}
    env = MultiThreadedEnv(
        num_workers=N, env_name="CartPole-v1", create_env_kwargs=kwargs, disable_env_checker=True
    )
    assert isinstance(env, PoolEnv)
    assert (env.num_workers, env.env_name, env.num_threads) == (N, "CartPole-v1", 1)
    assert env.device == torch.device("cpu")
    assert isinstance(env.action_spec, Categorical)
    pool = PoolEnv("CartPole-v1", N, device="cpu", categorical_action_encoding=True, **kwargs)
    a, b = env.reset(), pool.reset()
    for _ in range(30):
        a["action"] = b["action"] = torch.randint(2, (N,))
        a, a_root = env.step_and_maybe_reset(a)
        b, b_root = pool.step_and_maybe_reset(b)
        assert_td_equal(a, b)
        assert_td_equal(a_root, b_root)
        a, b = a_root, b_root


@pytest.mark.parametrize("task", TASKS)
def test_frame_skip_repeats_the_action_and_sums_rewards(task):
    env = MultiThreadedEnv(N, task, frame_skip=4, create_env_kwargs={"seed": 0})
    assert isinstance(env.transform, FrameSkipTransform)
    check_env_specs(env)
    env.set_seed(0)
    twin = MultiThreadedEnv(N, task, create_env_kwargs={"seed": 0})
    root, twin_root = env.reset(), twin.reset()
    for _ in range(2):  # 8 frames: no CartPole falls that fast
        action = env.rand_action()["action"]
        td = env.step(root.set("action", action))
        total = 0
        for _ in range(4):
            twin_td = twin.step(twin_root.set("action", action))
            total = total + twin_td["next", "reward"]
            twin_root = twin.step_mdp(twin_td)
        assert torch.equal(td["next", "reward"], total)
        assert torch.equal(td["next", "observation"], twin_td["next", "observation"])
        root = env.step_mdp(td)


@pytest.mark.parametrize("frame_skip", [None, 1])
def test_no_frame_skip(frame_skip):
    env = MultiThreadedEnv(N, "CartPole-v1", frame_skip=frame_skip)
    assert type(env) is MultiThreadedEnv


def test_entries_that_no_reset_writes_are_cleared_where_an_episode_begins():
    """As in EnvBase and SerialEnv; a recurrent policy's state, say. Nested ones too."""

    def run(env):
        torch.manual_seed(0)
        root, seen = env.reset(), []
        for _ in range(60):
            root["h"] = torch.ones(3, 2)
            root["nested", "count"] = torch.ones(3, dtype=torch.int64)
            _, root = env.step_and_maybe_reset(env.rand_action(root))
            seen.append(root.select("h", "nested"))
        return torch.stack(seen)

    ours = run(PoolEnv("CartPole-v1", 3, seed=0, device="cpu"))
    reference = SerialEnv(3, lambda: GymEnv("CartPole-v1"))
    reference.set_seed(0)
    theirs = run(reference)
    assert ours["h"].equal(theirs["h"])
    assert ours["nested", "count"].equal(theirs["nested", "count"])
    assert 0 < ours["h"].mean() < 1


def test_names_of_dimensions_are_kept():
    env = PoolEnv("CartPole-v1", 3)
    root = env.rand_action(env.reset())
    root.names = ["envs"]
    data, root = env.step_and_maybe_reset(root)
    assert data.names == data["next"].names == root.names == ["envs"]


def test_a_locked_tensordict_is_refused_before_anything_moves():
    env, twin = PoolEnv("CartPole-v1", 3, seed=0), PoolEnv("CartPole-v1", 3, seed=0)
    root = env.rand_action(env.reset())
    twin.reset()
    with pytest.raises(RuntimeError, match="lock"):
        env.step_and_maybe_reset(root.clone().lock_())
    assert (env.step(root.clone())["next"] == twin.step(root.clone())["next"]).all()


def test_integers_of_numpy_are_integers():
    env = PoolEnv("CartPole-v1", numpy.int64(3), num_threads=numpy.int32(1), seed=numpy.uint32(7))
    assert (env.reset(seed=numpy.int64(5)) == PoolEnv("CartPole-v1", 3).reset(seed=5)).all()
