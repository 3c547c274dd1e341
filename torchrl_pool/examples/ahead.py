"""Items that a thread makes ahead of who takes them, and never further ahead than asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterator over what a function makes, in a thread of its own.

    The thread begins item k when :meth:`finish` has been called at least ``k - ahead`` times. So an item that
    is made from the results of those before lacks at most ``ahead`` of them, and no more than ``ahead + 1``
    are there or in work. With ``ahead=0``, no thread is needed, and none is started.

    Args:
        make: makes the next item.
        ahead: how far the thread may be ahead.
    """

    def __init__(self, make: Callable[[], T], ahead: int) -> None:
        self._make, self._ahead = make, ahead
        self._changed = threading.Condition()
        self._ready: deque[T] = deque()
        self._begun, self._finished = 0, 0
        self._is_making, self._rests, self._is_closed = False, False, False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Waits for the next item. What was raised where it was made is raised here."""
        if self._ahead == 0:
            return self._make()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
            self._thread.start()
        with self._changed:
            self._rests = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ready or self._error is not None)
            if not self._ready:
                assert self._error is not None
                raise self._error
            return self._ready.popleft()

    def finish(self) -> None:
        """Tells that an item has been worked off, and its results are there for those that follow."""
        with self._changed:
            self._finished += 1
            self._changed.notify_all()

    def rest(self) -> None:
        """Waits for what is being made; nothing else is begun until the next item is asked for."""
        with self._changed:
            self._rests = True
            self._changed.wait_for(lambda: not self._is_making)

    def close(self) -> None:
        """Ends the thread after the item that it is making."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _may_begin(self) -> bool:
        return not self._rests and self._begun <= self._finished + self._ahead

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._may_begin())
                if self._is_closed:
                    return
                self._begun += 1
                self._is_making = True
            try:
                item = self._make()
            except BaseException as error:
                with self._changed:
                    self._error, self._is_making = error, False
                    self._changed.notify_all()
                return
            with self._changed:
                self._ready.append(item)
                self._is_making = False
                self._changed.notify_all()
