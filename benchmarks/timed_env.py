"""Envs of Gymnasium whose steps keep a processor busy for so long: ``timed_env:Timed60-v0`` for 60 µs."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

MICROSECONDS = (5, 20, 60, 250, 1_000)
EPISODE = 200


class Timed(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, microseconds: float) -> None:
        self.seconds, self.steps = microseconds * 1e-6, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        end = time.perf_counter() + self.seconds
        self.steps += 1
        observation = np.zeros(4, np.float32)
        while time.perf_counter() < end:
            pass
        return observation, 1.0, self.steps == EPISODE, False, {}


for one in MICROSECONDS:
    gymnasium.register(
        f"Timed{one}-v0", Timed, disable_env_checker=True, order_enforce=False, kwargs={"microseconds": one}
    )
