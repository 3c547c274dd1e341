"""A lock that no forked child inherits locked: who holds it in the parent is not there to give it back."""

from __future__ import annotations

import _thread
import os
import weakref
from typing import Any

_RLock: Any = _thread.RLock  # threading.RLock is a function


class ForkAwareLock(_RLock):
    """A lock whose ``with`` no signal cuts in two, and that each forked child has unlocked.

    Handlers of signals run in code of Python alone: before Python 3.14 never between acquiring a lock and the
    block after it, but since then they do. Acquired here, it is given back where a handler raises.
    """

    def __enter__(self) -> None:
        if self._is_owned():
            raise RuntimeError("neither a signal's handler nor a destructor may call what it has interrupted")
        try:
            self.acquire()
        except BaseException:
            try:  # noqa: SIM105  another handler may run in suppress(), before it is released
                self.release()
            except RuntimeError:  # it was not acquired yet
                pass
            raise


_locks: weakref.WeakSet[ForkAwareLock] = weakref.WeakSet()


def fork_aware_lock() -> ForkAwareLock:
    lock = ForkAwareLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_renew)
