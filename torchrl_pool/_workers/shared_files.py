"""Shared memory in ``/dev/shm`` that killed processes leave behind: a game engine's, say."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDER = "/dev/shm"
#: Those of multiprocessing and torch, who remove them by themselves.
_OF_OTHERS = ("sem.mp-", "psm_", "torch_")
#: How often is looked for who has mapped a new file, of which the kernel tells before its creator can do so.
_LOOKS = 6
#: Seconds between two looks at least, and for each second that the first took: files of others cost little.
_PAUSE, _REST = 0.004, 4.0
#: How many last characters the names of files share that were made for one instance of an engine.
_ALIKE = 8
_GONE = 0


@dataclass(frozen=True)
class _Note:
    name: str
    creator: int
    child: int  # of this process, from which the creator descends


class SharedFiles:
    """Who has created and mapped which of them, among what descends from this process.

    The kernel tells of each new file by a signal. Where it has no such signals, files are seen as processes
    end. A file is known by its inode. What is written and never mapped is no shared memory: it is left.

    A creator that is killed at once is gone before anybody looks. Engines that share several files end their
    names with one identifier: the file belongs to whom those belong, unless another process maps it.

    Args:
        children: of this process, at any time.
        tidy: they remove such files by themselves, unless they are killed.
    """

    def __init__(self, children: Callable[[], set[int]], tidy: bool) -> None:
        self._children = children
        self._tidy = tidy
        self._notes: dict[int, _Note] = {}
        self._unknown: dict[int, int] = {}  # how often each is still looked for
        self._names = _names()
        self._rests_until = 0.0
        self._fd = -1
        with contextlib.suppress(OSError):
            for number in (signal.SIGIO, signal.SIGALRM):
                signal.signal(number, lambda *_: self._hear())
            self._fd = os.open(_FOLDER, os.O_RDONLY)
            fcntl.fcntl(self._fd, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)

    def let_go(self) -> None:
        """In a forked child, which is told of nothing."""
        for number in (signal.SIGIO, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def ended(self, pid: int, status: int) -> None:
        """Removes what it has created, or what its descendants have that ended before it.

        Of a child that has ended as it should, its own files are left: it knows what it does.
        """
        with _undisturbed():
            self.look()
            self._guess([note for note in self._notes.values() if note.child == pid], self._unknown)
            for inode, note in list(self._notes.items()):
                if note.child == pid and status == 0 and (note.creator == pid or self._tidy):
                    del self._notes[inode]
                elif note.creator == pid or (note.child == pid and not _is_there(note.creator)):
                    self._remove(inode)

    def _remove(self, inode: int) -> None:
        note = self._notes.pop(inode)
        if note.creator == _GONE and any(inode in _mapped(pid) for pid in _everybody()):
            return
        if name := _names().get(inode):
            with contextlib.suppress(OSError):
                Path(_FOLDER, name).unlink()

    def _hear(self) -> None:
        if (rest := self._rests_until - time.monotonic()) > 0:
            signal.setitimer(signal.ITIMER_REAL, rest)
        else:
            self.look()

    def look(self) -> None:
        """Notes new files."""
        with _undisturbed():
            begin = time.thread_time()
            before, self._names = self._names, _names()
            self._unknown.update(dict.fromkeys(self._names.keys() - before.keys(), _LOOKS))
            self._find_creators()
            self._unknown = {inode: looks - 1 for inode, looks in self._unknown.items()}
            self._guess(
                list(self._notes.values()), [inode for inode, looks in self._unknown.items() if not looks]
            )
            self._unknown = {inode: looks for inode, looks in self._unknown.items() if looks}
            if self._unknown:
                pause = max(_PAUSE, _REST * (time.thread_time() - begin))
                self._rests_until = time.monotonic() + pause
                signal.setitimer(signal.ITIMER_REAL, pause)
            else:  # until here a file that has gone says whose others are
                self._notes = {inode: note for inode, note in self._notes.items() if inode in self._names}

    def _find_creators(self) -> None:
        for inode in self._unknown.keys() - self._names.keys():
            del self._unknown[inode]
        for child in self._children() if self._unknown else ():
            for pid in _family(child):  # a child that is just forked has what its parent has: parents first
                for inode in _mapped(pid) & self._unknown.keys():
                    del self._unknown[inode]
                    self._notes[inode] = _Note(self._names[inode], pid, child)

    def _guess(self, notes: list[_Note], inodes: Iterable[int]) -> None:
        """Notes those whose names end like that of one of these."""
        children = {note.name[-_ALIKE:]: note.child for note in notes}
        for inode in list(inodes):
            name = self._names[inode]
            if child := children.get(name[-_ALIKE:]):
                del self._unknown[inode]
                self._notes[inode] = _Note(name, _GONE, child)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """By signals: they come afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGIO, signal.SIGALRM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _names() -> dict[int, str]:
    with contextlib.suppress(OSError), os.scandir(_FOLDER) as entries:
        return {entry.inode(): entry.name for entry in entries if not entry.name.startswith(_OF_OTHERS)}
    return {}


def _is_there(pid: int) -> bool:
    return pid != _GONE and Path(f"/proc/{pid}").exists()


def _everybody() -> Iterator[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from _family(int(child))


def _mapped(pid: int) -> set[int]:
    """Inodes of the files in the folder's file system that it has mapped."""
    with contextlib.suppress(OSError):
        number = os.stat(_FOLDER).st_dev
        device = f"{os.major(number):02x}:{os.minor(number):02x}"
        lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
        return {int(inode) for _, _, _, at, inode, *_ in map(str.split, lines) if at == device}
    return set()
