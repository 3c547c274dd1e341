"""What an env of Gymnasium tells in steps only: its infos, and the shape of its reward."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from torchrl_pool._workers.entries import Entry
from torchrl_pool._workers.wrappers import look_up, watcher_of, wrappers

Info: TypeAlias = Mapping[str, Any]

MOST_STEPS, MOST_SECONDS = 1_000, 10.0
"""How long infos are looked for that have not been there yet, unless the episode ends before."""
# What those tell who watch an env's episodes.
_STATISTICS = {"episode/r": "float64", "episode/l": "int64", "episode/t": "float64"}


def told_in_steps(env: gymnasium.Env[Any, Any], info_keys: Sequence[str]) -> list[Entry]:
    """The entries of an env's reward and of these infos.

    Where it takes a reset and steps to know them, wrappers have forgotten these afterwards, which would leave
    their traces, such as in running statistics.

    Args:
        env: the env.
        info_keys: names of infos; ``/`` separates nested levels.

    Raises:
        ValueError: no info dict from the beginning of an episode held one of the keys, or it held None there.
        TypeError: an info is a dict.
    """
    has_numbers = _has_vector_reward(env)
    if not has_numbers and not info_keys:
        return [_reward(())]
    with _wrappers_forget(env):
        return list(_entries(env, info_keys, has_numbers))


def begun(returned: Any) -> tuple[Any, Info]:
    """The observation and the info dict that a reset has returned.

    Raises:
        TypeError: it has not; an observation of two numbers would pass for both.
    """
    # Dicts by their class first: what else is a Mapping takes longer to tell.
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], (dict, Mapping)):
        return returned
    kinds = ", ".join(type(one).__name__ for one in returned) if isinstance(returned, tuple) else ""
    given = f"a tuple of ({kinds})" if kinds else type(returned).__name__
    raise TypeError(f"reset(): expected an observation and an info dict, as Gymnasium has it, got {given}")


@contextlib.contextmanager
def _wrappers_forget(env: Any) -> Iterator[None]:
    """Lets wrappers know meanwhile what they have copies of, such as statistics; others have what they have.

    What lies within them is never copied: simulators may be large, or not theirs alone.
    """
    layers = [env, *(wrapper.env for wrapper in wrappers(env))]
    kept = {id(one): one for one in (*layers, *getattr(layers[-1], "__dict__", {}).values())}
    known = [(vars(wrapper), dict(vars(wrapper))) for wrapper in wrappers(env)]
    for attributes, own in known:
        with contextlib.suppress(Exception):  # of whatever kind: files, say, have no copies
            attributes.update(copy.deepcopy(own, dict(kept)))
    try:
        yield
    finally:
        for attributes, own in known:
            attributes.clear()
            attributes.update(own)


def _has_vector_reward(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether its ``reward_space`` says so, as those of MO-Gymnasium's envs do."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    return len(shape) == 1 and shape != (1,)


def _reward(shape: tuple[int, ...]) -> Entry:
    return Entry("reward", "reward", "float32", shape if len(shape) == 1 else (1,))


def _entries(env: gymnasium.Env[Any, Any], names: Sequence[str], has_numbers: bool) -> Iterator[Entry]:
    start = time.monotonic()
    observation, at_reset = begun(env.reset())
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
    if watcher_of(env) is not None:  # by whom the episode's end has not been seen
        late = [name for name in missing() if name in _STATISTICS]
        found.update((name, np.zeros((), _STATISTICS[name])) for name in late)
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
