"""Functions that step envs and are compiled by torch: graphs break at the env's calls, data is the same."""

import pytest
import torch
from cases import cases
from comparing import assert_same
from torch._dynamo.exc import Unsupported
from torch._dynamo.utils import counters
from torchrl.envs import ClipTransform, Compose, RewardSum, StepCounter, TransformedEnv, VecNormV2

from torchrl_pool import MujocoPool, PoolEnv, fuse

N = 3
MODEL = """
<mujoco><worldbody><body><joint name="slide" type="slide"/><geom size="0.1"/></body></worldbody>
<actuator><motor joint="slide"/></actuator></mujoco>
"""


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def plain():
    return PoolEnv("CartPole-v1", N, seed=0, max_episode_steps=3, categorical_action_encoding=True)


def chained(last):
    norm = VecNormV2(["observation"], decay=0.99, eps=1e-2, reduce_batch_dims=True)
    return Compose(norm, ClipTransform(["observation"], low=-10, high=10), StepCounter(), last)


def fused():
    return fuse(TransformedEnv(plain(), chained(RewardSum())))


def partly_fused():
    """The last transform is TorchRL's."""
    return fuse(TransformedEnv(plain(), chained(RewardSum(reward_spec=True))))


def transformed():
    return TransformedEnv(plain(), chained(RewardSum()))


def mujoco():
    def slow(state, action, next_state):
        return next_state["qvel"].sum(-1)

    return MujocoPool(MODEL, N, reward=slow, max_episode_steps=3, seed=0)


def acting(env, root):
    return root.update(env.full_action_spec.zero())


def one_step(env, root):
    root["memory"] = root["done"].float() + 1  # what a root carries besides
    return env.step_and_maybe_reset(acting(env, root))


def steps(env, root):
    """Through ends of episodes. A loop would not be compiled, for a break within one ends the attempt."""
    first, root = one_step(env, root)
    second, root = one_step(env, root)
    third, root = one_step(env, root)
    fourth, root = one_step(env, root)
    return [torch.stack([first, second, third, fourth]), root]


def masked_step(env, root):
    return [env.step(acting(env, root).set("_step", torch.tensor([True, False, True])))]


def masked_reset(env, root):
    return [env.reset(root.set("_reset", torch.tensor([[True], [False], [True]]))), env.reset()]


def asynchronous(env, root):
    env.async_step_and_maybe_reset_send(acting(env, root))
    return list(env.async_step_and_maybe_reset_recv(min_get=N))


@pytest.mark.parametrize("make", [fused, plain, partly_fused, transformed, mujoco])
@pytest.mark.parametrize("call", [masked_step, steps, masked_reset])
@pytest.mark.filterwarnings("ignore")
def test_data_is_that_of_eager_calls(make, call):
    sides = []
    for made in (torch.compile(call, backend="aot_eager"), call):
        env = make()
        sides.append([data for _ in range(2) for data in made(env, env.reset())])
    for ours, theirs in zip(*sides, strict=True):
        assert_same(ours, theirs)
    assert counters["stats"]["unique_graphs"]


def test_asynchronous_calls():
    found = [
        made(env, env.reset())
        for made in (torch.compile(asynchronous, backend="aot_eager"), asynchronous)
        for env in [plain()]
    ]
    for ours, theirs in zip(*found, strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("make", cases(default=[plain, fused], also=[transformed]))
@pytest.mark.filterwarnings("ignore")
def test_compile_of_an_env(make):
    found = []
    for compiles in (True, False):
        env = make()
        if compiles:
            env.compile(backend="aot_eager")
        torch.manual_seed(0)
        found.append(env.rollout(7, break_when_any_done=False))
    assert_same(*found)


@pytest.mark.parametrize("make", cases([plain, fused]))
def test_one_graph_is_refused_with_a_reason(make):
    env = make()
    with pytest.raises(Unsupported, match="the executor steps the envs"):
        torch.compile(steps, fullgraph=True, backend="aot_eager")(env, env.reset())
