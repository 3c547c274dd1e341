"""An env of whatever library: what it is wrapped in, its attributes, its picture."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_MISSING = object()
_WATCHERS = {"Monitor", "RecordEpisodeStatistics"}  # Stable-Baselines3's, Gymnasium's


def is_from(module: str, name: str, env: Any) -> bool:
    """Whether it is an instance of a class of a library that may not even be loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(env, getattr(loaded, name))


def wrappers(env: Any) -> Iterator[Any]:
    """Gymnasium's wrappers around an env, from the outermost to the innermost."""
    while is_from("gymnasium", "Wrapper", env):
        yield env
        env = env.env


def watcher_of(env: Any) -> Any:
    """The innermost wrapper that tells of each episode in ``info["episode"]`` once it has ended, or None."""
    watchers = filter(_is_watcher, wrappers(env))
    telling = [one for one in watchers if getattr(one, "_stats_key", "episode") == "episode"]
    return telling[-1] if telling else None


def watchers_around(env: Any) -> list[Any]:
    """The outermost wrappers, as long as they watch episodes: the steps that they see are the pool's."""
    return list(itertools.takewhile(_is_watcher, wrappers(env)))


def check_limit(env: Any) -> None:
    """Who tells of episodes hears of those that the limit of a pool ends.

    Raises:
        TypeError: a wrapper around the one who tells may repeat steps, or leave resets out, so that the
            pool's last step is none that could be shown to it.
    """
    watcher = watcher_of(env)
    if watcher is not None and all(watcher is not one for one in watchers_around(env)):
        name = type(watcher).__name__
        raise TypeError(
            f"max_episode_steps: {name} would not see this limit from within {type(env).__name__}, and tell "
            f"of no episode that it ends: put {name} around all other wrappers; or leave this limit out, and "
            f"put gymnasium.wrappers.TimeLimit within {name}, which counts the steps there"
        )


def _is_watcher(wrapper: Any) -> bool:
    return any(kind.__name__ in _WATCHERS for kind in type(wrapper).__mro__)


def look_up(info: Any, keys: Sequence[str]) -> Any:
    """What lies in an info dict, below nested keys; None where it is missing."""
    for key in keys:
        if not isinstance(info, Mapping) or key not in info:
            return None
        info = info[key]
    return info


def is_wrapped(env: Any, module: str, name: str) -> bool:
    """Whether one of them is of this class, which need not be imported here."""
    kinds = (kind for wrapper in wrappers(env) for kind in type(wrapper).__mro__)
    return any((kind.__module__, kind.__qualname__) == (module, name) for kind in kinds)


def attribute(env: Any, name: str) -> Any:
    """Of the outermost layer that has it."""
    layer = _layer_with(env, name)
    return layer.get_wrapper_attr(name) if is_from("gymnasium", "Env", layer) else getattr(layer, name)


def has_attribute(env: Any, name: str) -> bool:
    """Whether a layer has it."""
    layer = _layer_with(env, name)
    return layer.has_wrapper_attr(name) if is_from("gymnasium", "Env", layer) else hasattr(layer, name)


def called(value: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a method gives; an attribute that cannot be called is given as it is."""
    return value(*arguments, **named) if callable(value) or arguments or named else value


def set_attribute(env: Any, name: str, value: Any) -> None:
    """Of the outermost layer that has it; where none has, of the outermost that is Gymnasium's, or of all."""
    layer = _layer_with(env, name)
    if is_from("gymnasium", "Env", layer):
        layer.set_wrapper_attr(name, value)
    else:
        setattr(layer, name, value)


def _layer_with(env: Any, name: str) -> Any:
    """The outermost layer that has this attribute, or that looks for it in what it wraps, as Gymnasium's do.

    Where there is none, the outermost of all. What a layer passes on from within is not its own.
    """
    for layer in _layers(env):
        if (
            is_from("gymnasium", "Env", layer)
            or name in _parts(layer)
            or inspect.getattr_static(layer, name, _MISSING) is not _MISSING
        ):
            return layer
    return env


def _layers(env: Any) -> Iterator[Any]:
    """An env of whatever library and what it wraps, from the outermost to what wraps nothing."""
    seen = set()
    while id(env) not in seen:
        yield env
        seen.add(id(env))
        parts = _parts(env)
        env = next((parts[within] for within in ("base_env", "_env", "env") if within in parts), env)


def _parts(env: Any) -> dict[str, Any]:
    """What an object has itself, of torch's modules their parts and numbers too."""
    own = getattr(env, "__dict__", {})
    parts = dict(own)
    for kind in ("_modules", "_buffers", "_parameters"):
        if isinstance(own.get(kind), dict):
            parts.update(own[kind])
    return parts


def kind_of_env(env: Any) -> str:
    """The names of its class and of those of its wrappers."""
    names = [type(env).__name__, *(type(wrapper.env).__name__ for wrapper in wrappers(env))]
    return "(".join(names) + ")" * (len(names) - 1)


def group_map(env: Any) -> dict[str, list[str]] | None:
    """Which agents are in which group, where an env says so as TorchRL's wrappers do."""
    try:
        group_map = env.group_map
    except Exception:
        return None
    if not isinstance(group_map, Mapping):
        return None
    return {str(group): [str(agent) for agent in agents] for group, agents in group_map.items()}


def picture(env: Any) -> Any:
    """What it shows now, uint8 ``[height, width, 3]``."""
    picture = env.render()
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3:
        raise NotImplementedError(
            f"expected a picture from render(), got {type(picture).__name__}: make the env with "
            "render_mode='rgb_array'"
        )
    return np.ascontiguousarray(picture)  # MuJoCo's is upside down
