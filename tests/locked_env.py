"""``gymnasium:locked_env:Locked-v0``: an env that can neither be pickled nor drawn."""

import threading

import gymnasium
import numpy as np


class Locked(gymnasium.Env):
    """Ends after five steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.lock, self.steps = threading.Lock(), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == 5, False, {}


gymnasium.register("Locked-v0", Locked)
