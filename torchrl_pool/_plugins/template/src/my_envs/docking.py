"""Docking in Python: what the C++ env is compared with, bit for bit."""

from typing import Any

import gymnasium
import numpy as np


class Docking(gymnasium.Env[Any, Any]):
    """See ``cpp/docking.cc``: the same arithmetic in the same order, and the same draws."""

    def __init__(self, mass: float = 2.0, range: float = 1.0) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,))
        self.mass = mass
        self.range = range

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-self.range, self.range)
        self.velocity = self.fuel = 0.0
        return self._observe(), {"fuel": self.fuel}

    def step(self, action: Any) -> Any:
        thrust = float(np.clip(action[0], -1, 1))  # it may lie outside
        self.velocity += thrust / self.mass * 0.1
        self.position += self.velocity * 0.1
        self.fuel += abs(thrust) * 0.1
        docked = abs(self.position) < 0.05 and abs(self.velocity) < 0.05
        reward = 10.0 if docked else -abs(self.position)
        return self._observe(), reward, docked, False, {"fuel": self.fuel}

    def _observe(self) -> Any:
        return np.array([self.position, self.velocity], np.float32)
