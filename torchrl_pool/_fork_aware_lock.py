"""A lock that no forked child inherits locked: who holds it in the parent is not there to give it back."""

from __future__ import annotations

import os
import threading


class ForkAwareLock:
    """A :class:`threading.Lock`; in each forked child it is another one, which nobody holds."""

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()
