"""Envs of Gymnasium with all kinds of spaces: ``gymnasium:odd_envs:Matrix-v0``, …"""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

VECTOR, CHOICE = Box(-1, 1, (3,)), Discrete(2)
SPACES = {
    "Matrix": (Box(-1, 1, (3, 4)), CHOICE),
    "Integers": (Box(-5, 5, (3,), np.int64), CHOICE),
    "Flags": (MultiBinary(5), CHOICE),
    "Bools": (Box(0, 1, (4,), np.bool_), CHOICE),
    "Bytes": (Box(0, 255, (16,), np.uint8), CHOICE),
    "Numbers": (MultiDiscrete([3, 4]), CHOICE),
    "Picture": (Box(0, 255, (40, 40, 3), np.uint8), CHOICE),
    "SmallPicture": (Box(0, 255, (1, 40, 40), np.uint8), CHOICE),
    "Parts": (Dict(a=VECTOR, b=Discrete(3)), CHOICE),
    "Pair": (Tuple((VECTOR, Discrete(3))), CHOICE),
    "Doubles": (VECTOR, Box(-1, 1, (2,), np.float64)),
    "Unbounded": (VECTOR, Box(-np.inf, np.inf, (2,))),
    "MatrixActions": (VECTOR, Box(-1, 1, (2, 2))),
    "Choices": (VECTOR, MultiDiscrete([2, 3])),
}


class Odd(gymnasium.Env):
    """Episodes of seven steps, of whatever its spaces hold; actions must be in theirs."""

    def __init__(self, kind):
        self.observation_space, self.action_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 7, False, {}


for kind in SPACES:
    gymnasium.register(f"{kind}-v0", Odd, kwargs={"kind": kind})
