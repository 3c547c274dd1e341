"""Envs that the references take or refuse: resets without options, lists of envs whose spaces differ."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from cases import cases
from gymnasium.vector import SyncVectorEnv
from python_envs import Sampled
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from torchrl_pool import PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv


class WithoutOptions(gymnasium.Env):
    """As Stable-Baselines3 takes it."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None):
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Forwarding(gymnasium.Wrapper):
    def reset(self, **kwargs):
        return self.env.reset(**kwargs)


def as_it_is(env):
    return env


@pytest.mark.parametrize(
    ("wrap", "num_workers"),
    cases(
        default=[(as_it_is, 0), (Forwarding, 0), (lambda env: Monitor(Forwarding(env)), 0)],
        also=[(Monitor, 0), (Monitor, 1)],
    ),
)
@pytest.mark.parametrize("front", [PoolEnv, PoolVectorEnv, PoolVecEnv])
def test_a_reset_that_takes_no_options_is_given_none(wrap, front, num_workers):
    reference = DummyVecEnv([lambda: wrap(WithoutOptions())])
    reference.seed(3)
    pool = front(lambda: wrap(WithoutOptions()), 1, num_workers=num_workers)
    if front is PoolVecEnv:
        pool.seed(3)
        drawn = pool.reset()
    else:
        root = pool.reset(seed=3)
        drawn = root["observation"].numpy() if front is PoolEnv else root[0]
    assert (drawn == reference.reset()).all()
    pool.reset()
    pool.close()


BOX, LARGER = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Box(0, 5, (2,))
SIX = gymnasium.spaces.Discrete(6)
SPACES = {
    "bounds of observations": ((BOX, None), (LARGER, None), r"of env 0, .* got Box\(0.0, 5.0.*from env 2"),
    "bounds of actions": (
        (BOX, BOX),
        (BOX, LARGER),
        r"expected the action space .* got Box\(0.0, 5.0.*env 2",
    ),
    "numbers of choices": ((BOX, None), (BOX, SIX), "env 2.*env 0 has the action 'action', .*2.* choices"),
    "shapes": ((BOX, None), (gymnasium.spaces.Box(0, 1, (3,)), None), "env 2.*env 0 has the observation"),
}


@pytest.mark.parametrize(("first", "second", "message"), cases(SPACES.values()), ids=SPACES)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_vector_envs_refuse_spaces_that_differ(first, second, message, num_workers):
    makes = [partial(Sampled, *first), partial(Sampled, *first), partial(Sampled, *second)]
    with pytest.raises(RuntimeError):
        SyncVectorEnv(makes)
    with pytest.raises(RuntimeError, match=message):
        PoolVectorEnv(makes, 3, num_workers=num_workers)
    same = PoolVectorEnv(makes[:2], 2, num_workers=num_workers)
    assert same.reset(seed=0)[0].shape == (2, 2)
    same.close()
