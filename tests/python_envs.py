"""Envs written in Python, for tests: of Gymnasium, and, made on call, of TorchRL."""

from __future__ import annotations

import ctypes
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces

#: Where envs live: in this process, or in workers.
WHERE = {
    "here": {"num_workers": 0},
    "workers": {"num_workers": 2},
}


class Sampled(gymnasium.Env):
    """Draws observations from its space, and tells in its infos what actions it got."""

    def __init__(self, observation_space=None, action_space=None, episode=5):
        self.observation_space = spaces.Box(-1, 1, (3,)) if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.episode = episode
        self.steps = 0
        self.action = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {"options": options}

    def step(self, action):
        self.action = action
        self.steps += 1
        observation = self.observation_space.sample()
        return observation, self.steps / 2, self.steps == self.episode, False, self.infos()

    def infos(self):
        return {}


class Dictionary(Sampled):
    """Nested Dicts, a Tuple inside, a leaf of no elements; a Dict of actions; infos that come and go."""

    def __init__(self):
        box = spaces.Box(-1, 1, (2,))
        super().__init__(
            spaces.Dict(
                picture=spaces.Box(0, 255, (4, 5), np.uint8),
                pair=spaces.Tuple([box, box]),
                body=spaces.Dict(legs=box, nothing=spaces.Box(-1, 1, (0, 3)), mode=spaces.Discrete(3)),
            ),
            spaces.Dict(turn=spaces.Discrete(3), arm=spaces.Dict(force=box)),
        )

    def infos(self):
        infos = {"count": self.steps, "deep": {"half": np.float32(self.steps / 2)}, "name": "text"}
        if self.steps % 2:
            infos["sometimes"] = np.arange(3)
        return infos


class Scripted(gymnasium.Env):
    """Does what its script says for a step, counted from 1 since the last reset; 0 is the reset.

    Args:
        script: by step: ``"raise"``, ``"exit"``, ``"crash"``, ``"shape"``, ``"dtype"``, ``"interrupt"``,
            ``"terminate"``, ``"truncate"``, a number of seconds to sleep, or an exception. A reset's option
            ``"script"`` replaces it.
    """

    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)

    def __init__(self, script=None):
        self.script = script or {}
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.script = (options or {}).get("script", self.script)
        self.steps = 0
        return self._act()[0], {}

    def step(self, action):
        self.steps += 1
        observation, event = self._act()
        return observation, 1.0, event == "terminate", event == "truncate", {}

    def _act(self):
        observation = np.full(3, self.steps / 100, np.float32)
        match event := self.script.get(self.steps):
            case "raise":
                raise ValueError(f"as the script says in step {self.steps}")
            case "exit":
                os._exit(3)
            case "crash":
                ctypes.string_at(0)
            case "interrupt":
                raise KeyboardInterrupt
            case BaseException():
                raise type(event)(*event.args)
            case "shape":
                observation = np.zeros(4, np.float32)
            case "dtype":
                observation = np.array(["a", "b", "c"])
            case float() | int():
                time.sleep(event)
        return observation, event


class Sleeping(gymnasium.Env):
    """Takes its time."""

    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)

    def __init__(self, step_seconds=0.0, reset_seconds=0.0):
        self.step_seconds = step_seconds
        self.reset_seconds = reset_seconds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(self.reset_seconds)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        time.sleep(self.step_seconds)
        return np.zeros(3, np.float32), 1.0, False, False, {}


class Failing(gymnasium.Env):
    """Fails while a file is there, in what it was told to fail in."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, file, when, how):
        self.file, self.when, self.how = file, when, how
        self.act("made")

    def act(self, now):
        if now == self.when and os.path.exists(self.file):
            if self.how == "exits":
                os._exit(3)
            raise ValueError(f"not {now}")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.act("reset" if seed is None else "seeded")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.act("step")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self):
        self.act("closed")
