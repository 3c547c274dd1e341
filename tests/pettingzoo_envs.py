"""Envs of PettingZoo for tests."""

from typing import ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from torchrl.envs import PettingZooWrapper


class Chase(ParallelEnv):
    """Two players of PettingZoo, who see different things."""

    metadata: ClassVar = {"name": "chase"}
    possible_agents = ("hunter", "hare")

    def observation_space(self, agent):
        return spaces.Box(-1, 1, (2 + (agent == "hare"),))

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.agents = [*self.possible_agents]
        self.steps = 0
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        over = dict.fromkeys(self.agents, self.steps == 4)
        never = dict.fromkeys(self.agents, False)
        return self._observe(), rewards, over, never, {agent: {} for agent in self.agents}

    def state(self):
        return np.array([self.steps, self.rng.bit_generator.state["state"]["state"] % 7], np.float32)

    def _observe(self):
        shapes = {agent: self.observation_space(agent).shape for agent in self.agents}
        return {agent: self.rng.random(shape, np.float32) for agent, shape in shapes.items()}


def chase():
    return PettingZooWrapper(Chase())


class Escape(Chase):
    """The hare may escape, and the hunter be called back: an end that is one player's alone."""

    def step(self, actions):
        observed, rewards, terminations, truncations, infos = super().step(actions)
        drawn = self.rng.random()
        return (
            observed,
            rewards,
            {**terminations, "hare": drawn < 0.15},
            {**truncations, "hunter": drawn > 0.85},
            infos,
        )


def escape():
    return PettingZooWrapper(Escape())


class Nim(AECEnv):
    """Two players take 1 to 3 of what is left, in turn; who takes the last has won."""

    metadata: ClassVar = {"name": "nim"}
    possible_agents = ("first", "second")

    def observation_space(self, agent):
        return spaces.Box(0, 10, (1,))

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        return np.array([max(self.left, 0)], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.left = int(self.rng.integers(5, 10))
        self.agents = [*self.possible_agents]
        self.agent_selection = self.agents[0]
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        agent, other = self.agent_selection, self.possible_agents[self.agent_selection == "first"]
        self._cumulative_rewards[agent] = 0
        self.left -= int(action) + 1
        self._clear_rewards()
        if self.left <= 0:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = other
        self._accumulate_rewards()


def nim():
    return PettingZooWrapper(Nim(), use_mask=True)
