"""Envs that are quick to build and to step, and policies for them."""

from functools import partial

import pytest
import torch
from cases import cases

from torchrl_pool import MultiThreadedEnv, PoolEnv, list_tasks

TASKS = [*list_tasks("classic"), "Hopper-v5", "Reacher-v5"]
N = 4

cartpole = partial(PoolEnv, "CartPole-v1", N)
pendulum = partial(PoolEnv, "Pendulum-v1", N)
threaded_cartpole = partial(MultiThreadedEnv, N, "CartPole-v1")
MAKERS = pytest.mark.parametrize(
    "make", cases([cartpole, pendulum, threaded_cartpole]), ids=["pool", "pool_continuous", "multi_threaded"]
)


def fall_right(td):
    """A CartPole policy, so that episodes end after about ten steps, at other times in each env."""
    action = torch.zeros(*td.batch_size, 2, dtype=torch.int64)
    action[..., 1] = 1
    return td.set("action", action)


def lean(td):
    """A CartPole policy that depends on what it sees: episodes of very different lengths."""
    right = (td["observation"][..., 2] + td["observation"][..., 3] > 0.1).long()
    return td.set("action", torch.nn.functional.one_hot(right, 2))
