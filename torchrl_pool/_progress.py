"""What is being done now, for whoever waits: a line on standard error that changes and goes away again."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds that one waits without wondering


class Progress:
    """Work whose parts are known. Where nobody watches, in a file, its title alone is written.

    Args:
        title: what the work is; stands before what is told of it.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        if _is_watched():
            self.tell("starting")
        else:
            print(title, file=sys.stderr, flush=True)

    def tell(self, what: str) -> None:
        """Shows what is done now."""
        if _is_watched():
            _show(f"{self._title}: {what} …")

    def close(self) -> None:
        """Leaves an empty line to what comes."""
        if _is_watched():
            _show("")


@contextmanager
def shown_if_slow(what: str) -> Iterator[None]:
    """Work that is a single call: from two seconds on a terminal shows what it is, and the seconds.

    Args:
        what: the work, in words.

    Examples:
        >>> with shown_if_slow("adding"):
        ...     1 + 1
        2
    """
    if not _is_watched():
        yield
        return
    done = threading.Event()
    watch = threading.Thread(target=_count_seconds, args=(what, done), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _count_seconds(what: str, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(PATIENCE):
        return
    while True:
        _show(f"{what}: {time.monotonic() - began:.0f} s …")
        if done.wait(1):
            break
    _show("")


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _show(line: str) -> None:
    erase = "\r\033[K"
    print(erase + line[: shutil.get_terminal_size().columns - 1], end="", file=sys.stderr, flush=True)
