"""Wrappers of Gymnasium's envs that tell of each episode once it has ended."""

from __future__ import annotations

from typing import Any

from gymnasium import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from torchrl_pool._workers.wrappers import wrappers

_WATCHERS = {"Monitor", "RecordEpisodeStatistics"}  # Stable-Baselines3's, Gymnasium's
_PLAIN = (ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper, OrderEnforcing, PassiveEnvChecker)
_PLAIN_STEPS = [*(kind.step for kind in _PLAIN), TimeLimit.step]


def is_watched(env: Any) -> bool:
    """Whether one of them tells of the env's episodes, in ``info["episode"]``."""
    return any(map(_watches, wrappers(env)))


def _watches(wrapper: Any) -> bool:
    is_watcher = any(kind.__name__ in _WATCHERS for kind in type(wrapper).__mro__)
    return is_watcher and getattr(wrapper, "_stats_key", "episode") == "episode"


def limit_within(env: Any, most_steps: int, is_heard: bool) -> None:
    """Lets who watches an env's episodes know of a pool's limit, which ends them from without.

    Gymnasium's ``TimeLimit`` within counts the same steps as the pool.

    Raises:
        TypeError: a wrapper around it may repeat actions or go on after an end, so that its steps are others,
            and somebody hears of it.
    """
    around: list[Any] = []
    innermost = None
    for wrapper in wrappers(env):
        if _watches(wrapper):
            innermost = wrapper
            if is_heard and (other := next((one for one in around if not _steps_alike(one)), None)):
                raise TypeError(
                    f"max_episode_steps: expected {type(wrapper).__name__} to see each step of the pool, "
                    f"which {type(other).__name__} around it may hide: put gymnasium.wrappers.TimeLimit "
                    f"within {type(wrapper).__name__}"
                )
        around.append(wrapper)
    if innermost is not None and all(map(_steps_alike, around[: around.index(innermost)])):
        innermost.env = TimeLimit(innermost.env, most_steps)


def _steps_alike(wrapper: Any) -> bool:
    """Whether each of its steps is one of what it wraps, and ends an episode with it."""
    return _watches(wrapper) or type(wrapper).step in _PLAIN_STEPS
