"""Subclasses of the fronts with a part of a step of their own, beside those of the libraries' classes."""

import gymnasium
import numpy as np
import pytest
from cases import cases
from gymnasium.vector import AsyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

SETTINGS = {"native": None, "here": {"num_workers": 0}, "workers": {"num_workers": 2}}


def make():
    return gymnasium.make("CartPole-v1", max_episode_steps=6)


def parts(base):
    class Parts(base):
        asked = 0

        def step_async(self, actions):
            self.asked += 1
            super().step_async(1 - np.asarray(actions))

        def step_wait(self):
            observations, rewards, *rest = super().step_wait()
            return observations * 2, rewards - 5, *rest

        def reset_wait(self):
            observations, infos = super().reset_wait()
            return observations + 1, infos

    return Parts


def made(front, settings):
    if settings is None:
        return parts(front)("CartPole-v1", 2, max_episode_steps=6)
    return parts(front)(make, 2, **settings)


def played(env, first, num_outputs):
    seen = [first.tolist()]
    for t in range(14):
        seen.append([np.asarray(one).tolist() for one in env.step(np.array([t % 2, 1]))[:num_outputs]])
    asked = env.asked
    env.close()
    return seen, asked


@pytest.mark.parametrize("settings", cases(SETTINGS.values()), ids=SETTINGS)
def test_parts_of_a_vector_env(settings):
    env, theirs = made(PoolVectorEnv, settings), parts(AsyncVectorEnv)([make] * 2, context="fork")
    assert played(env, env.reset(seed=0)[0], 4) == played(theirs, theirs.reset(seed=0)[0], 4)


@pytest.mark.parametrize("settings", cases(SETTINGS.values()), ids=SETTINGS)
def test_parts_of_a_vec_env(settings):
    envs = made(PoolVecEnv, settings), parts(DummyVecEnv)([make] * 2)
    for env in envs:
        env.seed(0)
    ours, theirs = (played(env, env.reset(), 3) for env in envs)
    assert ours == theirs


def test_a_step_that_is_interrupted_between_its_parts_is_over():
    class Interrupted(PoolVectorEnv):
        interrupts = True

        def step_wait(self):
            if self.interrupts:
                raise KeyboardInterrupt
            return super().step_wait()

    env = Interrupted("CartPole-v1", 2)
    env.reset()
    with pytest.raises(KeyboardInterrupt):
        env.step(np.array([0, 1]))
    env.interrupts = False
    env.step(np.array([0, 1]))
    env.reset()
