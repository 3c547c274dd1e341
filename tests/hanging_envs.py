"""Envs that hang in one of their methods, once they are told to."""

import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Hanging(gymnasium.Env):
    """Counts its steps; after ``arm()`` the method of this name does not come back.

    Where it is ``"__init__"``, what hangs is the second one that is made with this file.
    """

    observation_space = Box(-1e9, 1e9, (1,), np.float32)
    action_space = Discrete(2)
    render_mode = "rgb_array"
    is_armed = False

    def __init__(self, where, file=None):
        self.where = where
        self.count = 0
        if where == "__init__":
            self.is_armed = Path(file).exists()
            Path(file).touch()
            self._hang("__init__")

    def arm(self):
        self.is_armed = True

    def _hang(self, where):
        while self.is_armed and where == self.where:
            time.sleep(0.01)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._hang("reset")
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._hang("step")
        self.count += 1
        return np.full(1, self.count, np.float32), 1.0, self.count == 1000, False, {}

    def render(self):
        self._hang("render")
        return np.full((4, 4, 3), self.count, np.uint8)

    def get_state(self):
        self._hang("get_state")
        return self.count

    def set_state(self, state):
        self._hang("set_state")
        self.count = state

    def think(self):
        self._hang("think")
        return "thought"

    @property
    def opinion(self):
        self._hang("opinion")
        return "none"

    @opinion.setter
    def opinion(self, value):
        self._hang("opinion")

    def close(self):
        self._hang("close")
