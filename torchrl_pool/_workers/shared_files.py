"""Files in ``/dev/shm`` that killed processes leave behind: a game engine's shared memory, say."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDER = "/dev/shm"
#: Those of multiprocessing and torch, who remove them by themselves.
_OF_OTHERS = ("sem.mp-", "psm_", "torch_")
#: Seconds between looks for who has a new file, of which the kernel tells before its creator has it.
_PAUSES = 0.0, 0.001, 0.002, 0.004, 0.008, 0.016


@dataclass(frozen=True)
class _Note:
    creator: int
    child: int  # of this process, from which the creator descends
    inode: int


class SharedFiles:
    """Who has created which of them, among what descends from this process.

    The kernel tells of each new file by a signal, as its creator opens it. That it is closed and mapped in
    between does not matter: it is mapped first. Where the kernel has no such signals, nothing is noted.

    Args:
        children: of this process, at any time.
    """

    def __init__(self, children: Callable[[], set[int]]) -> None:
        self._children = children
        self._notes: dict[str, _Note] = {}
        self._seen = _names()
        self._has_news = self._is_looking = False
        self._fd = -1
        with contextlib.suppress(OSError):
            signal.signal(signal.SIGIO, lambda *_: self._hear())
            self._fd = os.open(_FOLDER, os.O_RDONLY)
            fcntl.fcntl(self._fd, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)

    def let_go(self) -> None:
        """In a forked child, which is told of nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            signal.signal(signal.SIGIO, signal.SIG_DFL)

    def ended(self, pid: int, status: int) -> None:
        """Removes what it has created, or what its descendants have that ended before it.

        Of a child that has ended as it should, its own files are left: it knows what it does.
        """
        for name, note in list(self._notes.items()):
            if note.creator == note.child == pid and status == 0:
                self._notes.pop(name, None)
            elif note.creator == pid or (note.child == pid and not _is_there(note.creator)):
                self._remove(name)

    def _remove(self, name: str) -> None:
        path, note = Path(_FOLDER, name), self._notes.pop(name, None)  # a signal may have come in between
        if note is not None and _inode(path) == note.inode:
            with contextlib.suppress(OSError):
                path.unlink()

    def _hear(self) -> None:
        """A signal that comes meanwhile has it look once more."""
        self._has_news = True
        while self._has_news and not self._is_looking:
            self._has_news, self._is_looking = False, True
            try:
                self.look()
            finally:
                self._is_looking = False

    def look(self) -> None:
        """Notes new files; in the midst of another look, too."""
        names = _names()
        new, self._seen = names - self._seen, names
        for name in list(self._notes):
            if not Path(_FOLDER, name).exists():
                self._notes.pop(name, None)
        new = {name for name in new if not name.startswith(_OF_OTHERS)}
        held: dict[int, dict[int, set[str]]] = {}
        for seconds in _PAUSES:
            new = {name for name in new if name not in self._notes and Path(_FOLDER, name).is_file()}
            if not new:
                break
            time.sleep(seconds)
            held = {child: {pid: _held(pid) for pid in _family(child)} for child in self._children()}
            for child, family in held.items():
                for pid, files in reversed(family.items()):  # the creator may have shared it upwards since
                    for name in new & files:
                        self._notes.setdefault(name, _Note(pid, child, _inode(Path(_FOLDER, name))))
        if not held:
            return
        for name, note in list(self._notes.items()):  # of engines that were started again, or ended meanwhile
            is_held = any(name in files for files in held.get(note.child, {}).values())
            if not _is_there(note.creator) and not (is_held and _is_there(note.child)):
                self._remove(name)


def _names() -> set[str]:
    with contextlib.suppress(OSError):
        return set(os.listdir(_FOLDER))
    return set()


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _inode(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_ino
    return 0


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from _family(int(child))


def _held(pid: int) -> set[str]:
    """Names of the files that it has open or mapped."""
    paths = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                paths.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        maps = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
        paths += [line.split(None, 5)[-1] for line in maps.splitlines()]
    return {path.removeprefix(f"{_FOLDER}/") for path in paths if path.startswith(f"{_FOLDER}/")}
