"""Envs that a pool's own process steps, and what of theirs comes back to the pool."""

import gc
import os
import signal
import weakref

import gymnasium as gym
import numpy as np
import pytest
import torch
from cases import cases

from torchrl_pool import EnvFailure, PoolEnv


class Counts(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)
    steps = 0
    act = None  # before a step, once

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        act, self.act = self.act, None
        if act is not None:
            act()
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, False, False, {}


def stepped(pool, root):
    return pool.step_and_maybe_reset(root.set("action", pool.action_spec.rand()))


@pytest.mark.parametrize("call", ["reset", "async_reset"])
def test_an_env_that_has_its_pool_work(call):
    """Its request is at hand, and is not taken for one that an interrupt has left behind."""
    pool = PoolEnv(Counts, 4, num_workers=0)

    def call_back():
        if call == "reset":
            pool.reset()
        else:
            pool.async_reset_send(env_index=[2])
            pool.async_reset_recv(1)

    root = pool.reset()
    env = pool._source.workers._local._adapters[3].env
    env.act = call_back
    with pytest.raises(EnvFailure, match="RuntimeError") as raised:
        stepped(pool, root)
    assert raised.value.env_index == [3]
    root = pool.reset()
    data, _ = stepped(pool, root)
    assert data["next", "observation"].flatten().tolist() == [1, 1, 1, 1]
    pool.close()


@pytest.mark.parametrize("look", cases(default=["get_attr", "get_state"], also=[None]))
def test_an_env_that_was_lost_is_told_of_although_somebody_has_looked_at_it(look):
    pool = PoolEnv(Counts, 3, num_workers=1, respawn=True)
    root = stepped(pool, pool.reset())[1]
    pool.set_attr("act", [None, _die, None])
    data, root = stepped(pool, root)
    lost = ~data["next", "respawned"].flatten()  # in the midst of a request: those that had been stepped
    assert lost.tolist() == [True, False, False]
    if look == "get_attr":
        assert pool.get_attr("steps") == [0, 0, 0]
    elif look == "get_state":
        pool.get_state()
    data, _ = stepped(pool, root)
    assert torch.equal(data["next", "respawned"].flatten(), lost)
    assert torch.equal(data["next", "truncated"].flatten(), lost)
    pool.close()


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_closed_pool_leaves_to_the_garbage_collector():
    """Not its envs, nor the memory of their rows."""
    gc.collect()
    gc.disable()
    try:
        pool = PoolEnv(Counts, 2, num_workers=0)
        pool.reset()
        worker = weakref.ref(pool._source.workers._local)
        pool.close()
        del pool
        assert worker() is None
    finally:
        gc.enable()
