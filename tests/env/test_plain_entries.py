"""Tensors that a step reads: in whatever form they lie they mean their numbers, or they are refused."""

import pytest
import torch
from cases import cases
from torch import nn
from torch.overrides import TorchFunctionMode
from torchrl.envs import RewardSum, TransformedEnv

from torchrl_pool import PoolEnv, fuse

N = 4


class Subclass(torch.Tensor):
    pass


def freed(values):
    values = values.clone()
    values.untyped_storage().resize_(0)
    return values


# Of numbers ``[4, 1]``: what means the same, and what does not fit.
SAME = {
    "plain": lambda x: x.clone(),
    "a part of more": lambda x: torch.stack([x + 9, x])[1],
    "transposed": lambda x: x.T.contiguous().T,
    "expanded": lambda x: x[:1].expand(N, 1),
    "strided": lambda x: torch.cat([x, x + 9], 1)[:, ::2],
    "negated": lambda x: torch._neg_view(-x),
    "imaginary": lambda x: torch.complex(x, -x).conj().imag,
    "gradient": lambda x: x.clone().requires_grad_(),
    "parameter": lambda x: nn.Parameter(x.clone(), requires_grad=False),
    "subclass": lambda x: x.clone().as_subclass(Subclass),
}
OTHERS = {
    "dtype": lambda x: x.double(),
    "bfloat16": lambda x: x.bfloat16(),
    "complex": lambda x: x.to(torch.complex64),
    "whole numbers": lambda x: x.long(),
    "shape": lambda x: x.expand(N, 2).clone(),
    "dimensions": lambda x: x.unsqueeze(-1),
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "freed": freed,
}


@pytest.fixture(params=["bare", "fused"])
def make(request):
    def make(task="Pendulum-v1"):
        pool = PoolEnv(task, N, seed=0)
        return pool if request.param == "bare" else fuse(TransformedEnv(pool, RewardSum()))

    return make


def stepped(env, form, key="action"):
    """A step whose root holds these numbers in a form that nobody has converted."""
    root = env.reset().set("action", torch.full((N, 1), 0.5))
    root._tensordict[key] = form(torch.full((N, 1), 0.5))
    return env.step_and_maybe_reset(root)[0]["next"]


@pytest.mark.parametrize("form", cases(SAME.values()), ids=SAME)
def test_whatever_means_the_same_numbers_is_taken(make, form):
    assert (stepped(make(), form) == stepped(make(), torch.clone)).all()


@pytest.mark.parametrize("form", cases(SAME.values()), ids=SAME)
def test_what_is_carried_means_its_numbers(form):
    envs = [fuse(TransformedEnv(PoolEnv("Pendulum-v1", N, seed=0), RewardSum())) for _ in range(2)]
    ours, theirs = (
        stepped(env, of, "episode_reward") for env, of in zip(envs, (form, torch.clone), strict=True)
    )
    assert torch.equal(ours["episode_reward"], theirs["episode_reward"])


@pytest.mark.parametrize("form", cases(OTHERS.values()), ids=OTHERS)
def test_others_are_refused_and_change_nothing(make, form):
    env, twin = make(), make()
    with pytest.raises((TypeError, ValueError, RuntimeError, NotImplementedError)):
        stepped(env, form)
    twin.reset()
    assert (stepped(env, torch.clone) == stepped(twin, torch.clone)).all()


def test_an_entry_that_is_taken_out_meanwhile_is_held():
    env, twin = (PoolEnv("Pendulum-v1", N, seed=0) for _ in range(2))
    root = env.reset().set("action", torch.full((N, 1), 0.5))

    class TakesItOut(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            del args
            root._tensordict.pop("action", None)
            return result

    expected = stepped(twin, torch.clone)
    with TakesItOut():
        after = env.step_and_maybe_reset(root)[0]["next"]
    assert torch.equal(after["observation"], expected["observation"])


@pytest.mark.parametrize("key", cases(["action", "episode_reward"]))
def test_tensors_without_memory_are_refused(key):
    env = fuse(TransformedEnv(PoolEnv("Pendulum-v1", 3), RewardSum()))
    root = env.rand_action(env.reset())
    root[key] = root[key] * 1
    root[key].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=f"'{key}': expected a tensor with memory"):
        env.step_and_maybe_reset(root)
