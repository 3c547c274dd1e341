"""How actions are chosen, where several threads collect: one exploration type holds for a whole process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type

from torchrl_pool._fork_aware_lock import fork_aware_lock

_here = threading.local()


class _Setting:
    """The process's type, set by one thread, which may set it back sooner or later than others theirs."""

    _all: ClassVar[list[_Setting]] = []  # that hold, in the order in which they began
    _lock = fork_aware_lock()

    def __init__(self, kind: ExplorationType | None) -> None:
        with self._lock:
            self._found = exploration_type()
            self._all.append(self)
            _set(kind)

    def end(self) -> None:
        with self._lock:
            place = self._all.index(self)
            del self._all[place]
            if place == len(self._all):
                _set(self._found)
            else:  # what was found here is for who found this one
                self._all[place]._found = self._found


def _set(kind: ExplorationType | None) -> None:
    set_exploration_type(kind).__enter__()


@contextmanager
def exploring(kind: ExplorationType | str | None) -> Iterator[None]:
    """Sets the process's exploration type, which other threads may change, and this thread's."""
    if isinstance(kind, str):
        kind = ExplorationType.from_str(kind)
    before = getattr(_here, "kind", None)
    setting = _Setting(kind)
    _here.kind = kind
    try:
        yield
    finally:
        _here.kind = before
        setting.end()


def exploration_type_here() -> ExplorationType | None:
    """This thread's, or else the process's."""
    kind: ExplorationType | None = getattr(_here, "kind", None)
    return exploration_type() if kind is None else kind
