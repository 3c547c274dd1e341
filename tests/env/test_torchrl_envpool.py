"""What TorchRL's tests ask of its MultiThreadedEnv (test/libs/test_envpool.py of 0.14), asked of ours.

The envs come from TorchRL's own helper, which gets our class instead. Left out is what is about EnvPool:
which library the class wraps, and CheetahRun-v1.
"""

import pytest
import torch
from tensordict import TensorDict, assert_allclose_td
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs.utils import check_env_specs
from torchrl.modules import MLP, ActorCriticOperator, ValueOperator
from torchrl.testing import env_creators

from torchrl_pool import MultiThreadedEnv

N, STEPS = 3, 10
DISCRETE = ("Acrobot-v1", "CartPole-v1")
ENVS = pytest.mark.parametrize("env_name", ["Pendulum-v1", *DISCRETE])
FRAME_SKIP = pytest.mark.parametrize("frame_skip", [4, 1])
TRANSFORMED = pytest.mark.parametrize("transformed", [False, True])
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(env_creators, "MultiThreadedEnv", MultiThreadedEnv)
    envs = []

    def make(env_name, frame_skip, transformed, num_envs=N, **kwargs):
        envs.append(
            env_creators.make_multithreaded_env(env_name, frame_skip, transformed, num_envs, **kwargs)
        )
        return envs[-1]

    yield make
    for env in envs:
        env.close(raise_if_closed=False)


def random_actions(env, num_rows=N):
    return TensorDict({"action": env.action_spec.rand()}, [num_rows])


def step_first(env):
    """The first call is a step; what it returns is checked, and that a batch of another size is refused."""
    data = env.step(random_actions(env))
    assert not data.is_shared()
    assert {("next", "done"), ("next", "reward")} <= set(data.keys(True))
    with pytest.raises(RuntimeError):
        env.step(random_actions(env, N - 1))


def reset_some(env):
    env.reset(TensorDict({"_reset": torch.zeros(N, dtype=torch.bool).bernoulli_()}, [N]))


def assert_whole(rollout):
    assert rollout.shape == (N, STEPS) or rollout["done"].sum(1).all()


@ENVS
def test_creation(env_name):
    env = MultiThreadedEnv(4, env_name)
    env.reset()
    env.rand_step()


@ENVS
@FRAME_SKIP
@TRANSFORMED
def test_specs(env_name, frame_skip, transformed, make):
    check_env_specs(make(env_name, frame_skip, transformed))


@ENVS
@FRAME_SKIP
@TRANSFORMED
def test_basic_operation(env_name, frame_skip, transformed, make):
    env = make(env_name, frame_skip, transformed)
    step_first(env)
    reset_some(env)
    assert_whole(env.rollout(STEPS, break_when_any_done=False))


def actor(env):
    """One that gives as many floats as the action spec's last dimension has entries, whatever that is."""
    size = env.action_spec.shape[-1]
    return ActorCriticOperator(
        TensorDictModule(nn.LazyLinear(12), in_keys=["observation"], out_keys=["hidden"]),
        TensorDictModule(nn.LazyLinear(size), in_keys=["hidden"], out_keys=["action"]),
        ValueOperator(MLP(out_features=1, num_cells=[]), in_keys=["hidden", "action"]),
    )


@FRAME_SKIP
@TRANSFORMED
def test_with_a_policy(frame_skip, transformed, make):
    env = make("Pendulum-v1", frame_skip, transformed)
    policy = actor(env)
    step_first(env)
    reset_some(env)
    assert_whole(env.rollout(STEPS, policy, break_when_any_done=False))


@pytest.mark.parametrize("env_name", DISCRETE)
@FRAME_SKIP
@TRANSFORMED
def test_floats_for_numbers_of_actions_are_refused(env_name, frame_skip, transformed, make):
    """TorchRL's test feeds floats ``[N, N]`` to a spec of N numbers: all that is refused of what it does."""
    env = make(env_name, frame_skip, transformed)
    policy = actor(env)
    step_first(env)
    reset_some(env)
    with pytest.raises(ValueError, match=r"'action': expected numbers .*, of shape \[3\], got \[3, 3\]"):
        env.rollout(STEPS, policy, break_when_any_done=False)
    with pytest.raises(TypeError, match=r"'action': expected dtype torch.int64, got torch.float32"):
        env.rollout(STEPS, lambda td: td.set("action", torch.zeros(N)), break_when_any_done=False)
    assert_whole(env.rollout(STEPS, break_when_any_done=False))  # the env goes on


@ENVS
@FRAME_SKIP
@TRANSFORMED
def test_seeds(env_name, frame_skip, transformed, make):
    """Two envs of one seed give the same, and one of another seed something else."""
    seed, envs = 100, [make(env_name, frame_skip, transformed, num_envs=4) for _ in range(2)]
    action = envs[0].action_spec.rand()

    def reset_and_step(env, seed):
        env.set_seed(seed)
        torch.manual_seed(100)  # of the rollout's random actions
        root = env.reset()
        return root, env.step(root.clone().set("action", action))

    (root, data), (other_root, other_data) = [reset_and_step(env, seed) for env in envs]
    assert_allclose_td(root, other_root.select(*root.keys()))
    assert_allclose_td(data, other_data)

    rollouts = []
    for env in envs:
        reset_and_step(env, seed)
        rollouts.append(env.rollout(STEPS))
    assert_allclose_td(*rollouts)

    for before, after in zip((root, data), reset_and_step(envs[1], seed + 10), strict=True):
        with pytest.raises(AssertionError):
            assert_allclose_td(before, after.select(*before.keys()))


def test_shutdown(make):
    env = make("Pendulum-v1", 1, False)
    env.reset()
    assert not env.is_closed
    env.rand_step()
    assert not env.is_closed
    env.close()
    assert env.is_closed
    env.reset()
    assert not env.is_closed


@CUDA
@ENVS
@TRANSFORMED
@pytest.mark.parametrize("used_before", [False, True])
def test_moving_to_a_device(env_name, transformed, used_before, make):
    env, device = make(env_name, 4, transformed), torch.device("cuda", 0)
    if used_before:
        assert env.rollout(STEPS).device == torch.device("cpu")
    env = env.to(device)
    for part in (env, env.observation_spec, env.action_spec, env.reward_spec):
        assert part.device == device
    for data in (env.reset(), env.rand_step(), env.rollout(STEPS)):
        assert data.device == device


@CUDA
@ENVS
@TRANSFORMED
def test_creation_on_a_device(env_name, transformed, make):
    env = make(env_name, 4, transformed, device="cuda:0")
    assert env.device == torch.device("cuda", 0)
    assert env.rollout(20).device == torch.device("cuda", 0)
