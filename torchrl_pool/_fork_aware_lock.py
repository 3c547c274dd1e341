"""A lock that no forked child inherits locked: who holds it in the parent is not there to give it back."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_aware_lock() -> threading.Lock:
    """A lock that each forked child has unlocked.

    It is a plain lock, whose ``with`` no signal cuts in two: a signal's handler runs in code of Python alone.
    """
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_renew)
