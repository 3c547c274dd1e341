"""The step of an env of Gymnasium, without wrappers that do nothing in it."""

from __future__ import annotations

from typing import Any

from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit


class _Limit(TimeLimit):
    """A ``TimeLimit`` that is another one, with its count, its limit and all it has, around another env."""

    __slots__ = ("env",)

    def __init__(self, limit: TimeLimit, env: Any) -> None:
        self.__dict__ = vars(limit)
        self.env = env


def stepper_of(env: Any) -> Any:
    """What has a ``step`` with the results and effects of this env's, in the episode that begins.

    It saves two frames of Python of those that ``gymnasium.make`` puts around every env, a fourteenth of a
    CartPole's step: :class:`PassiveEnvChecker` looks at the first two steps alone, and a pool refuses by
    itself what :class:`OrderEnforcing` does.
    """
    is_limit = type(env) is TimeLimit
    within = env.env if is_limit else env
    while _does_nothing(within):
        within = within.env
    if not is_limit:
        return within
    return env if within is env.env else _Limit(env, within)


def _does_nothing(wrapper: Any) -> bool:
    kind = type(wrapper)
    if kind is PassiveEnvChecker:
        has_looked = wrapper.checked_step and getattr(wrapper, "checked_data_reuse", True)
        return has_looked and "step" not in vars(wrapper)
    return kind is OrderEnforcing and "step" not in vars(wrapper)
