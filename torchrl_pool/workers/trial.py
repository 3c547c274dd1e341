"""What an env of Gymnasium tells in its steps only: the shape of its reward, and its infos."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from torchrl_pool.workers.entries import Entry, required

Info: TypeAlias = Mapping[str, Any]

MOST_STEPS, MOST_SECONDS = 1_000, 10.0
"""How long infos are looked for that have not been there yet, unless the episode ends before."""
STATISTICS = {"episode/r": "float64", "episode/l": "int64", "episode/t": "float64"}
"""Infos of an episode's end, with their dtypes, that are known without a trial where a wrapper gives them."""
_WATCHERS = {"Monitor", "RecordEpisodeStatistics"}  # Stable-Baselines3's, Gymnasium's


def told_in_steps(
    env: gymnasium.Env[Any, Any], info_keys: Sequence[str], make: Callable[[], Any] | None = None
) -> list[Entry]:
    """The entries of an env's reward and of these infos.

    Where it takes a reset and steps to know them, these are another env's, which is then closed: they would
    leave their traces in this one, such as in the running statistics of a wrapper.

    Args:
        env: the env.
        info_keys: names of infos; ``/`` separates nested levels. What is not
            :func:`~torchrl_pool.workers.entries.required` is left out where it takes a trial to know it.
        make: makes another env like it; None: it is tried itself.

    Raises:
        ValueError: no info dict from the beginning of an episode held one of the keys, or it held None there.
        TypeError: an info is a dict.
    """
    has_numbers, known = _has_vector_reward(env), _statistics(env)
    unknown = [name for name in required(info_keys) if name not in known]
    reward, infos = _reward(()), dict(known)
    if has_numbers or unknown:
        tried = env if make is None else make()
        try:
            reward, *found = _entries(tried, unknown, has_numbers)
        finally:
            if tried is not env:
                with contextlib.suppress(Exception):
                    tried.close()
        infos.update((entry.name, entry) for entry in found)
    names = dict.fromkeys(name.removesuffix("?") for name in info_keys)
    return [reward, *(infos[name] for name in names if name in infos)]


def look_up(info: Any, keys: Sequence[str]) -> Any:
    """What lies in an info dict, below nested keys; None where it is missing."""
    for key in keys:
        if not isinstance(info, Mapping) or key not in info:
            return None
        info = info[key]
    return info


def _statistics(env: Any) -> dict[str, Entry]:
    while isinstance(env, gymnasium.Wrapper):
        is_watcher = any(kind.__name__ in _WATCHERS for kind in type(env).__mro__)
        if is_watcher and getattr(env, "_stats_key", "episode") == "episode":
            return {name: Entry(name, "info", dtype, ()) for name, dtype in STATISTICS.items()}
        env = env.env
    return {}


def _has_vector_reward(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether its ``reward_space`` says so, as those of MO-Gymnasium's envs do."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    return len(shape) == 1 and shape != (1,)


def _reward(shape: tuple[int, ...]) -> Entry:
    return Entry("reward", "reward", "float32", shape if len(shape) == 1 else (1,))


def _entries(env: gymnasium.Env[Any, Any], names: Sequence[str], has_numbers: bool) -> Iterator[Entry]:
    start = time.monotonic()
    observation, at_reset = env.reset()
    seen: dict[str, Any] = dict(at_reset)
    reward: Any = 0.0
    found: dict[str, Any] = {}  # in the first step that has it, whose dtype is more to be trusted

    def missing() -> list[str]:
        return [name for name in names if name not in found and look_up(at_reset, name.split("/")) is None]

    info = at_reset
    for _ in range(MOST_STEPS):
        try:
            observation, reward, terminated, truncated, info = env.step(_action(env, observation, info))
        except Exception:  # nobody can know which actions it allows
            if has_numbers or missing():
                raise
            break
        seen.update(info)
        values = {name: look_up(info, name.split("/")) for name in names}
        found = {**{name: value for name, value in values.items() if value is not None}, **found}
        if not missing() or terminated or truncated or time.monotonic() - start > MOST_SECONDS:
            break
    yield _reward(np.shape(reward))  # a wrapper may have made one number of several
    if missing():
        there = ", ".join(map(repr, sorted(_paths(seen)))) or "nothing"
        raise ValueError(
            f"info key {missing()[0]!r}: neither reset nor step returned it, or it was None; there is {there}"
        )
    for name in names:
        value = found.get(name)
        value = look_up(at_reset, name.split("/")) if value is None else value
        if isinstance(value, Mapping):
            below = ", ".join(repr(f"{name}/{path}") for path in sorted(_paths(value))) or "nothing"
            raise TypeError(f"info key {name!r}: a dict; in it there is {below}")
        array = np.asarray(value)
        yield Entry(name, "info", str(array.dtype), array.shape)


def _action(env: gymnasium.Env[Any, Any], observation: Any, info: Info) -> Any:
    """Any action, of those that a mask allows where there is one."""
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        for place in info, observation:
            mask = look_up(place, ["action_mask"])
            if mask is not None and np.shape(mask) == (space.n,):
                return space.sample(np.asarray(mask, np.int8))
    return space.sample()


def _paths(info: Info) -> list[str]:
    """The keys of a dict and of those in it, but for what is None."""
    paths = []
    for key, value in info.items():
        below = _paths(value) if isinstance(value, Mapping) else []
        paths += [f"{key}/{path}" for path in below] or ([] if value is None else [str(key)])
    return paths
