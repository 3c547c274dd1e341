"""The step of an env of Gymnasium, past the wrappers that ``gymnasium.make`` puts around every env."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit


class ShortStep:
    """What a step of an env comes to, for those who know that it has been reset.

    It saves four frames of Python, a tenth of a CartPole's step: :class:`PassiveEnvChecker` looks at the
    first two steps alone, a pool refuses by itself what :class:`OrderEnforcing` does, and what
    :class:`TimeLimit` does is done here, or for plain steps in C++.

    Args:
        env: the env.
    """

    within: Any
    """What lies within them. Its ``step`` is looked up at each step, as a wrapper does: it may change."""
    limit: Any
    """The ``TimeLimit`` that counts these steps, or None."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._passed: list[Any] = []
        self.limit = None
        within: Any = env
        while _can_pass(within) and not (self.limit is not None and type(within) is TimeLimit):
            self._passed.append(within)
            if type(within) is TimeLimit:
                self.limit = within
            within = within.env
        self.within = within

    def step(self, action: Any) -> Sequence[Any]:
        """Has the results and effects of ``env.step``."""
        results: Sequence[Any] = self.within.step(action)
        limit = self.limit
        if limit is None:
            return results
        observation, reward, terminated, truncated, info = results
        limit._elapsed_steps += 1
        if limit._elapsed_steps >= limit._max_episode_steps:
            truncated = True
        return observation, reward, terminated, truncated, info

    def holds(self, env: gymnasium.Env[Any, Any]) -> bool:
        """Whether it is what a step of this env comes to now."""
        within: Any = env
        for wrapper in self._passed:
            if within is not wrapper or not _can_pass(within):
                return False
            within = within.env
        return within is self.within and not (type(within) is PassiveEnvChecker and _can_pass(within))


def _can_pass(wrapper: Any) -> bool:
    """Whether its step does nothing that is missed."""
    kind = type(wrapper)
    if kind is PassiveEnvChecker:
        has_looked = wrapper.checked_step and getattr(wrapper, "checked_data_reuse", True)
        return has_looked and "step" not in vars(wrapper)
    return kind in (TimeLimit, OrderEnforcing) and "step" not in vars(wrapper)
