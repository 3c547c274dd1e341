"""Rewards of whatever type are the numbers that the reference makes of them."""

import contextlib
from decimal import Decimal
from fractions import Fraction
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv


class Price:
    def __float__(self):
        return 123456.789


REWARDS = {
    "float": 0.1,
    "negative zero": -0.0,
    "nan": float("nan"),
    "int": 2**53 + 1,
    "bool": True,
    "np.float64": np.float64(0.1),
    "np.float32": np.float32(0.1),
    "np.float16": np.float16(0.1),
    "np.longdouble": np.longdouble(1) / 3,
    "np.int64": np.int64(16_777_217),
    "np.uint64": np.uint64(2**64 - 1),
    "np.bool_": np.bool_(True),
    "0-d array": np.array(16_777_217),
    "0-d array of objects": np.array(Decimal("0.1")),
    "tensor": torch.tensor(0.1, dtype=torch.float64),
    "Decimal": Decimal("0.1"),
    "Fraction": Fraction(1, 3),
    "__float__": Price(),
    "-1": np.int32(-1),  # what C's conversion returns for an error, too
}


class Paying(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def __init__(self, kind):
        self.kind, self.t = kind, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), REWARDS[self.kind], self.t >= 3, False, {}


@pytest.mark.parametrize(
    "kind",
    cases(
        default=[
            "negative zero",
            "np.longdouble",
            "np.int64",
            "0-d array of objects",
            "tensor",
            "Decimal",
            "-1",
        ],
        also=REWARDS,
    ),
)
def test_rewards_of_any_real_type(kind):
    make = partial(Paying, kind)
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        ours = PoolVectorEnv(make, 2, num_workers=0, autoreset_mode=mode)
        theirs = SyncVectorEnv([make] * 2, autoreset_mode=mode)
        with contextlib.closing(ours), contextlib.closing(theirs):
            ours.reset()
            theirs.reset()
            for _ in range(5):
                found, due = (envs.step([0, 1])[1] for envs in (ours, theirs))
                assert found.dtype == due.dtype
                assert found.tobytes() == due.tobytes()
    with contextlib.closing(PoolVecEnv(make, 2, num_workers=0)) as ours:
        theirs = DummyVecEnv([make] * 2)
        ours.reset()
        theirs.reset()
        found, due = (env.step([0, 1])[1] for env in (ours, theirs))
        assert found.dtype == due.dtype
        assert np.array_equal(found, due, equal_nan=True)
    with contextlib.closing(PoolEnv(make, 1, num_workers=0, info_keys=["exact_reward"])) as env:
        exact = env.rollout(1)["next", "exact_reward"].numpy().ravel()
        assert exact.tobytes() == np.array([float(REWARDS[kind])]).tobytes()


@pytest.mark.parametrize("kind", cases(["complex", "words"]))
def test_rewards_that_are_no_numbers_are_refused(kind, monkeypatch):
    monkeypatch.setitem(REWARDS, kind, {"complex": 1j, "words": "much"}[kind])
    with contextlib.closing(PoolVectorEnv(partial(Paying, kind), 1, num_workers=0)) as envs:
        envs.reset()
        with pytest.raises(EnvFailure, match="'reward': expected float32"):
            envs.step([0])
