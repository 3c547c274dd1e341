"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_WHERE_TO_REGISTER = (
    "Where a package registers it, name that first, as in 'gymnasium:minigrid:MiniGrid-Empty-8x8-v0',"
    " or import it within the function that makes the env, "
    "which runs in a process of its own; there it can register what cannot be pickled, too."
)
_elsewhere: dict[str, bytes] = {}
_MOST_BYTES = 1 << 16


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


class _TooLarge(MemoryError):
    """It is not worth sending to processes that may not need it."""


class _Bytes(io.BytesIO):
    """What is written, which is this much at most."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            raise _TooLarge
        return super().write(data)


def registrations(dump: Callable[[Any, io.BytesIO], None], factories: bytes) -> dict[str, bytes]:
    """The ids that this process knows, with their specs as :func:`know` takes them.

    Those that cannot be pickled are left out, and large ones that the factories do not name.

    Args:
        dump: pickles what ``__main__`` defines, by value.
        factories: what makes the envs, pickled.
    """
    gymnasium = sys.modules.get("gymnasium")
    found: dict[str, bytes] = {}
    for env_id, spec in [] if gymnasium is None else list(gymnasium.registry.items()):
        with contextlib.suppress(Exception):
            try:
                found[env_id] = _pickled(spec, dump, _MOST_BYTES)
            except MemoryError:
                if env_id.encode() in factories:
                    found[env_id] = _pickled(spec, dump, math.inf)
    return found


def _pickled(spec: Any, dump: Callable[[Any, io.BytesIO], None], most: float) -> bytes:
    try:
        pickle.Pickler(file := _Bytes(most)).dump(spec)
        if b"__main__" not in file.getvalue():
            return file.getvalue()
    except MemoryError:
        raise
    except Exception:  # what cannot be imported travels by value
        pass
    dump(_without_names_of_main(spec), file := _Bytes(most))
    return file.getvalue()


def _without_names_of_main(spec: Any) -> Any:
    """A spec whose entry point is no string that only ``__main__`` would know."""
    module, _, name = spec.entry_point.partition(":") if isinstance(spec.entry_point, str) else ("", "", "")
    if module == "__main__":
        spec = copy.copy(spec)
        spec.entry_point = functools.reduce(getattr, name.split("."), sys.modules["__main__"])
    return spec


def know(specs: Mapping[str, bytes]) -> None:
    """Takes what :func:`registrations` has given in the pool's process.

    The ids that are here before any env is made are Gymnasium's own: what the program has made of them holds.
    """
    if specs:
        import gymnasium

        _elsewhere.update(specs)
        _register(env_id for env_id in specs if env_id in gymnasium.registry)


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

    _register(env_id for env_id in list(_elsewhere) if env_id not in registry)
    _elsewhere.clear()
    return made_by(factory)


def _register(ids: Iterable[str]) -> None:
    from gymnasium import registry

    for env_id in ids:
        with contextlib.suppress(Exception):  # what is not here either, such as a module
            registry[env_id] = pickle.loads(_elsewhere.pop(env_id))


def _is_of_unknown_id(error: Exception) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return isinstance(error, NotRegistered) or (
        gymnasium is not None and isinstance(error, gymnasium.error.UnregisteredEnv)
    )
