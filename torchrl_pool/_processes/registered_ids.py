"""The ids of Gymnasium that a program has registered: they are there in its worker processes, too."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_elsewhere: dict[str, bytes] = {}  # in a worker: those that the program has, and this process has not yet
_MOST_BYTES = 1 << 16


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


def register_rest() -> bool:
    """Registers what the program's process has and this one has not. Whether there was anything."""
    if not _elsewhere:
        return False
    from gymnasium import registry

    _register(env_id for env_id in list(_elsewhere) if env_id not in registry)
    _elsewhere.clear()
    return True


def _register(ids: Iterable[str]) -> None:
    from gymnasium import registry

    for env_id in ids:
        with contextlib.suppress(Exception):  # what is not here either, such as a module
            registry[env_id] = pickle.loads(_elsewhere.pop(env_id))
