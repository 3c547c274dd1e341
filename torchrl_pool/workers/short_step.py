"""The step of an env of Gymnasium, past the wrappers that ``gymnasium.make`` puts around every env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

Step = Callable[[Any], "tuple[Any, Any, Any, Any, Any]"]


class ShortStep:
    """What a step of an env comes to, for those who know that it has been reset.

    It saves four frames of Python, a tenth of a CartPole's step: :class:`PassiveEnvChecker` looks at the
    first two steps alone, a pool refuses by itself what :class:`OrderEnforcing` does, and what
    :class:`TimeLimit` does is done here, or for plain steps in C++.

    Args:
        env: the env.
    """

    within: Step
    """The step of what lies within them, whose steps ``limit`` counts."""
    limit: Any
    """The ``TimeLimit``, or None."""
    step: Step
    """Both of them: a function with the results and effects of ``env.step``."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._passed: list[Any] = []
        self.limit = None
        within: Any = env
        while _can_pass(within) and not (self.limit is not None and type(within) is TimeLimit):
            self._passed.append(within)
            if type(within) is TimeLimit:
                self.limit = within
            within = within.env
        self._innermost, self._own_step = within, _own(within, "step")
        self.within = within.step
        self.step = self.within if self.limit is None else _limited(self.within, self.limit)

    def holds(self, env: gymnasium.Env[Any, Any]) -> bool:
        """Whether it is what a step of this env comes to now."""
        within: Any = env
        for wrapper in self._passed:
            if within is not wrapper or not _can_pass(within):
                return False
            within = within.env
        is_same = within is self._innermost and _own(within, "step") is self._own_step
        return is_same and not (type(within) is PassiveEnvChecker and _can_pass(within))


def _can_pass(wrapper: Any) -> bool:
    """Whether its step does nothing that is missed."""
    kind = type(wrapper)
    if kind is PassiveEnvChecker:
        has_looked = wrapper.checked_step and getattr(wrapper, "checked_data_reuse", True)
        return has_looked and _own(wrapper, "step") is None
    return kind in (TimeLimit, OrderEnforcing) and _own(wrapper, "step") is None


def _own(env: Any, name: str) -> Any:
    """What an instance has of its own under a name."""
    return getattr(env, "__dict__", {}).get(name)


def _limited(step: Step, limit: Any) -> Step:
    def limited(action: Any) -> tuple[Any, Any, Any, Any, Any]:
        observation, reward, terminated, truncated, info = step(action)
        limit._elapsed_steps += 1
        if limit._elapsed_steps >= limit._max_episode_steps:
            truncated = True
        return observation, reward, terminated, truncated, info

    return limited
