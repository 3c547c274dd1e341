"""Functions that step fused envs, compiled by torch: graphs break there, and data is that of eager calls."""

import pytest
import torch
from comparing import assert_td_equal
from tensordict import TensorDict
from torch._dynamo.exc import Unsupported
from torchrl.envs import (
    ClipTransform,
    Compose,
    DoubleToFloat,
    RewardSum,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import PoolEnv, fuse

N = 3

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def norm():
    return VecNormV2(["observation"], decay=0.99, eps=1e-2, reduce_batch_dims=True)


def ppo():
    return Compose(
        norm(), ClipTransform(["observation"], low=-10, high=10), RewardSum(), StepCounter(3), DoubleToFloat()
    )


def with_others():
    """The last two are TorchRL's."""
    return Compose(norm(), StepCounter(3), norm(), RewardSum(reward_spec=True))


def make(transforms):
    env = fuse(TransformedEnv(PoolEnv("CartPole-v1", N, seed=0, num_threads=2), transforms()))
    torch.manual_seed(0)
    return env


def statistics(env):
    return TensorDict(
        {key: value.clone() for key, value in env.transform.state_dict().items() if torch.is_tensor(value)}
    )


def chosen(root):
    hot = (root["observation"][:, 2] > 0).long()
    return root.set("action", torch.nn.functional.one_hot(hot, 2))


def steps(env, root):
    """Through the ends of episodes."""
    made = []
    for _ in range(5):
        step, root = env.step_and_maybe_reset(chosen(root))
        made.append(step)
    return [torch.stack(made), root]


def step(env, root):
    return [env.step(chosen(root))]


def masked_step(env, root):
    return [env.step(chosen(root).set("_step", torch.tensor([True, False, True])))]


def masked_reset(env, root):
    return [env.reset(chosen(root).set("_reset", torch.tensor([[True], [False], [True]])))]


def reset(env, root):
    return [root, env.reset()]


def seeded_reset(env, root):
    return [root, env.reset(seed=3)]


CALLS = [steps, step, masked_step, masked_reset, reset, seeded_reset]


@pytest.mark.parametrize(("call", "transforms"), [(steps, ppo), *((call, with_others) for call in CALLS)])
def test_data_is_that_of_eager_calls(call, transforms):
    sides = []
    for made in (torch.compile(call, backend="aot_eager"), call):
        env = make(transforms)
        data = []
        for _ in range(3):
            data += made(env, env.reset())
        sides.append([*data, statistics(env)])
    for ours, theirs in zip(*sides, strict=True):
        assert_td_equal(ours, theirs)


def test_inductor():
    compiled, eager = (make(ppo), make(ppo))
    ours = torch.compile(steps)(compiled, compiled.reset())
    for one, other in zip(ours, steps(eager, eager.reset()), strict=True):
        assert_td_equal(one, other)


@pytest.mark.parametrize("transforms", [ppo, with_others])
def test_compile_of_an_env(transforms):
    found = []
    for compiles in (True, False):
        env = make(transforms)
        if compiles:
            env.compile(backend="aot_eager")
        found.append((env.rollout(7, break_when_any_done=False), statistics(env)))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    assert found[0][0]["next", "done"].any()


def test_transforms_run_on_both_sides():
    assert make(with_others).fusion().num_native == 2
    assert make(ppo).fusion().num_native == 5


@pytest.mark.parametrize("call", [steps, step, reset])
def test_one_graph_is_refused_with_a_reason(call):
    env = make(ppo)
    with pytest.raises(Unsupported, match="the executor runs transforms of this env"):
        torch.compile(call, fullgraph=True, backend="aot_eager")(env, env.reset())


def test_compile_of_a_transformed_env():
    """TorchRL's own around a pool."""
    found = []
    for options in ({"compile": {"backend": "aot_eager"}}, {}):
        pool = PoolEnv("CartPole-v1", N, seed=0, num_threads=2, max_episode_steps=3)
        env = TransformedEnv(pool, Compose(norm(), StepCounter()), **options)
        torch.manual_seed(0)
        found.append((env.rollout(5, break_when_any_done=False), statistics(env)))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
