"""That a pool is a batched env of TorchRL's, and that its specs describe what comes."""

import gc
from functools import partial

import numpy
import pytest
import torch
from cases import cases
from comparing import assert_same
from small_envs import MAKERS, TASKS, N, cartpole, fall_right, pendulum
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs import EnvBase, GymEnv, ParallelEnv, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs

from torchrl_pool import PoolEnv


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


def test_a_pool_shows_its_limit_and_entries():
    text = "PoolEnv('Pendulum-v1', num_envs=3, device=None, max_episode_steps=200; "
    assert repr(PoolEnv("Pendulum-v1", 3)) == text + "observation: float32 [3], action: float32 [1])"
    mixed = PoolEnv(["CartPole-v0", "CartPole-v1"], obs_dtype="float64")
    assert repr(mixed).endswith("device=None; observation: float64 [4], action: int64 [2])")


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
        assert_same(a["next"], b["next"])
        a, b = a_root, b_root


def test_spec_lock():
    env = cartpole()
    assert env.is_spec_locked
    with pytest.raises(RuntimeError, match="lock"):
        env.observation_spec["other"] = env.observation_spec["observation"].clone()
    unlocked = cartpole(spec_locked=False)
    unlocked.observation_spec["other"] = unlocked.observation_spec["observation"].clone()


def test_integers_of_numpy_are_integers():
    env = PoolEnv("CartPole-v1", numpy.int64(3), num_threads=numpy.int32(1), seed=numpy.uint32(7))
    assert (env.reset(seed=numpy.int64(5)) == PoolEnv("CartPole-v1", 3).reset(seed=5)).all()


@pytest.mark.parametrize("limit", [2, 500])
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", cases(default=["Acrobot-v1", "MountainCar-v0"], also=TASKS))
def test_specs_describe_what_comes_under_transforms(task, device, limit):
    env = TransformedEnv(PoolEnv(task, N, device=device, max_episode_steps=limit), StepCounter())
    env.append_transform(RewardSum())
    check_env_specs(env, break_when_any_done="both")
    env.close()
    env = PoolEnv(task, N, device=device).append_transform(StepCounter(max_steps=limit))
    check_env_specs(env, break_when_any_done="both")
    env.close()


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", cases(default=["Hopper-v5"], also=TASKS))
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


def test_run_type_checks_changes_no_result():
    checked, unchecked = cartpole(seed=0, run_type_checks=True), cartpole(seed=0)
    assert checked.run_type_checks
    check_env_specs(checked, break_when_any_done="both")
    checked.set_seed(1)
    unchecked.set_seed(1)
    a = checked.rollout(60, fall_right, break_when_any_done=False)
    assert_same(a, unchecked.rollout(60, fall_right, break_when_any_done=False))


@pytest.mark.parametrize("step", cases(["step", "step_and_maybe_reset"]))
def test_run_type_checks_notice_a_wrong_dtype(step):
    env = cartpole(run_type_checks=True, spec_locked=False)
    root = env.rand_action(env.reset())
    env.output_spec["full_reward_spec", "reward"].dtype = torch.int
    with pytest.raises(TypeError, match=r"expected reward\.dtype"):
        getattr(env, step)(root)


@pytest.mark.parametrize("tie", cases(default=[[1, 0], [0, 1]], also=[[1, 1]]))
def test_of_several_hot_entries_the_first_one_counts(tie):
    """As in GymEnv, which takes the argmax: a QValueActor gives ties where values are equal."""
    action = torch.tensor(tie)
    reference = GymEnv("CartPole-v1")
    reference.set_seed(3)
    expected = reference.step(reference.reset().set("action", action))["next"]
    pool = PoolEnv("CartPole-v1", 1, seed=3)
    got = pool.step(pool.reset().set("action", action[None]))["next"]
    assert torch.equal(got["observation"][0], expected["observation"])
    pool.async_step_send(pool.reset().set("action", action[None]))
    pool.async_step_recv(1)
    for wrong in ([0, 0], [1, 2], [2, 0], [-1, 1]):
        with pytest.raises(ValueError, match="one-hot"):
            pool.step(pool.reset().set("action", torch.tensor([wrong])))
    pool.close()
