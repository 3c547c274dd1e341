"""Envs for the fronts of Gymnasium and Stable-Baselines3 that tell and take all that is allowed."""

import threading
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Talkative(gymnasium.Env):
    """Counts, ends after its ``length``, and has another thing to say each time, sometimes nothing."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, length=3, first=0):
        self.length, self.first = length, first
        self.position = np.zeros(2)  # its own, which it goes on changing

    def _seen(self):
        return np.full(2, self.count, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._seen(), {"first": self.first, "began": True} if self.first % 2 else {}

    def step(self, action):
        self.count += 1
        self.position += 1
        done = self.count == self.length
        kind = (self.count + self.first) % 4
        info = [
            {},
            {"score": self.count / 2, "name": f"step {self.count}", "nothing": None},
            {"deep": {"down": {"count": self.count, "path/with slash": 1}, "flag": np.True_}},
            {"position": self.position, "list": [self.count, {"a": 1}], "action": int(action)},
        ][kind]
        if done:
            info = {**info, "is_success": bool(action), "episode_note": {"length": self.length}}
        return self._seen(), 1.0, done and self.first % 2 == 0, done and self.first % 2 == 1, info


class Keyed(gymnasium.Env):
    """Its observations and actions share their keys, which are these and ``"x"``; it shows what it got."""

    def __init__(self, *keys):
        self.keys = keys
        self.observation_space = spaces.Dict(
            {"x": spaces.Discrete(9), **{key: spaces.Box(-9, 9, (2,), np.float32) for key in keys}}
        )
        self.action_space = spaces.Dict(
            {"x": spaces.Discrete(3), **{key: spaces.Box(-9, 9, (2,), np.float32) for key in keys}}
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return {"x": 0, **{key: np.zeros(2, np.float32) for key in self.keys}}, {}

    def step(self, action):
        self.count += 1
        shown = {key: np.float32(i + 1) * action[key] for i, key in enumerate(self.keys)}
        return {"x": int(action["x"]), **shown}, 0.5, self.count % 3 == 0, False, {}


class Locked(gymnasium.Wrapper):
    """Cannot be pickled; allows all actions but one."""

    def __init__(self, env):
        super().__init__(env)
        self.lock = threading.Lock()

    def action_masks(self):
        return np.array([True, False])


class Shown(gymnasium.Env):
    """Renders what is no picture of bytes."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata: ClassVar = {"render_modes": ["rgb_array", "ansi"], "render_fps": 7}

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}

    def render(self):
        return "a line" if self.render_mode == "ansi" else np.full((4, 4, 3), 0.5)
