"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

_WHERE_TO_REGISTER = (
    "Where a package registers it, name that first, as in 'gymnasium:minigrid:MiniGrid-Empty-8x8-v0',"
    " or import it within the function that makes the env, "
    "which runs in a process of its own; there it can register what cannot be pickled, too."
)
_elsewhere: dict[str, bytes] = {}


class NotRegistered(Exception):
    """An id that Gymnasium refuses, in a sentence that needs no traceback."""


def make_gymnasium(env_id: str, options: Mapping[str, Any]) -> Any:
    """The env of this id.

    Raises:
        ImportError: Gymnasium is not installed.
        NotRegistered: it has no such id, or that of a package which is not installed.
    """
    import gymnasium

    try:
        return gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        # What the registry itself raises is about the id; what an env raises needs its traceback.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        if any(frame.filename != gymnasium.envs.registration.__file__ for frame in frames):
            raise
        hint = f"\n{_WHERE_TO_REGISTER}" if isinstance(error, gymnasium.error.UnregisteredEnv) else ""
        raise NotRegistered(f"task 'gymnasium:{env_id}': {error}{hint}") from None


def registrations(dumps: Callable[[Any], bytes]) -> dict[str, bytes]:
    """The ids that this process knows besides Gymnasium's own, with their specs as :func:`know` takes them.

    Args:
        dumps: pickles what ``__main__`` defines, by value. What it cannot pickle is left out.
    """
    gymnasium = sys.modules.get("gymnasium")
    found: dict[str, bytes] = {}
    for env_id, spec in [] if gymnasium is None else list(gymnasium.registry.items()):
        if str(spec.entry_point).startswith("gymnasium.envs."):
            continue
        with contextlib.suppress(Exception):
            found[env_id] = pickle.dumps(spec)
        if env_id in found and b"__main__" not in found[env_id]:
            continue
        with contextlib.suppress(Exception):
            found[env_id] = dumps(_without_names_of_main(spec))
    return found


def _without_names_of_main(spec: Any) -> Any:
    """A spec whose entry point is no string that only ``__main__`` would know."""
    module, _, name = spec.entry_point.partition(":") if isinstance(spec.entry_point, str) else ("", "", "")
    if module == "__main__":
        spec = copy.copy(spec)
        spec.entry_point = functools.reduce(getattr, name.split("."), sys.modules["__main__"])
    return spec


def know(specs: Mapping[str, bytes]) -> None:
    """Takes what :func:`registrations` has given in the pool's process."""
    _elsewhere.update(specs)


def made_by(factory: Callable[[], Any]) -> Any:
    """What a factory makes. If it asks for an id that is unknown, it is called again once all are known.

    Not before: packages that register theirs when they are imported would warn that these are there already.
    """
    try:
        return factory()
    except Exception as error:
        if not _elsewhere or not _is_of_unknown_id(error):
            if not isinstance(error, NotRegistered) and _is_of_unknown_id(error):
                error.add_note(_WHERE_TO_REGISTER)
            raise
    from gymnasium import registry

    for env_id, spec in _elsewhere.items():
        if env_id not in registry:
            with contextlib.suppress(Exception):  # what is not here either, such as a module
                registry[env_id] = pickle.loads(spec)
    _elsewhere.clear()
    return made_by(factory)


def _is_of_unknown_id(error: Exception) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return isinstance(error, NotRegistered) or (
        gymnasium is not None and isinstance(error, gymnasium.error.UnregisteredEnv)
    )
