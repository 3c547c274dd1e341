"""What a process forks, and what descends from that: nothing of it outlives what it was started for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from torchrl_pool._workers.shared_files import SharedFiles

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl.h
_libc = ctypes.CDLL(None, use_errno=True)
#: Seconds after which what was killed, and does not end, is left to the kernel.
_DYING_SECONDS = 2.0
_LOOKING_SECONDS = 0.002


def adopt_orphans() -> None:
    """From now on what descends from this process becomes its child where its own parent has ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> bool:
    """Has the kernel kill this process when its parent ends; False where it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


class Children:
    """The children of this process, which has one thread.

    It has forked some of them, which adopt their own orphans. All others are then what one of them has left
    behind as it ended: they are killed at once, and so is what these leave behind. Their shared memory in
    ``/dev/shm`` is removed.

    Args:
        tidy: what this process forks does the same for its own children, unless it is killed.
    """

    def __init__(self, tidy: bool = False) -> None:
        self._before = _children()  # what an import has started, say, is not told from orphans later
        self._forked: set[int] = set()
        self._exit_codes: dict[int, int] = {}
        self._is_forking = False
        adopt_orphans()
        self._files = SharedFiles(lambda: _children() - self._before, tidy)
        self._is_here = True
        signal.signal(signal.SIGCHLD, lambda *_: self._look())
        os.register_at_fork(after_in_child=self._let_go)

    def _let_go(self) -> None:
        """In what this process has forked; what that forks in turn has signals of its own."""
        if self._is_here:
            self._is_here = False
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._files.let_go()

    def fork(self, fork: Callable[[], int]) -> None:
        """Counts what this forks, whose id it returns, among its own."""
        self._is_forking = True
        try:
            self._forked.add(fork())
        finally:
            self._is_forking = False
        self._look()

    def exit_code(self, pid: int) -> int | None:
        """Of one that has ended, once."""
        self._look()
        return self._exit_codes.pop(pid, None)

    def end(self, seconds: float) -> None:
        """Asks them to end by SIGTERM; kills those that have not within so many seconds, and all others."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _send(signal.SIGTERM, self._forked)
        end = time.monotonic() + seconds
        while self._forked and time.monotonic() < end:
            self._reap()
            time.sleep(_LOOKING_SECONDS)
        end = time.monotonic() + _DYING_SECONDS
        while (left := _children()) and time.monotonic() < end:
            self._kill(left)
            self._reap()
            time.sleep(_LOOKING_SECONDS)

    def _look(self) -> None:
        if not self._is_forking:
            self._reap()
            if orphans := _children() - self._forked - self._before:
                self._kill(orphans)

    def _kill(self, pids: set[int]) -> None:
        """Once it is known which files are theirs, of which they make no more."""
        _send(signal.SIGSTOP, pids)
        self._files.look()
        _send(signal.SIGKILL, pids)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                self._files.ended(pid, status)
                if pid in self._forked:
                    self._forked.discard(pid)
                    self._exit_codes[pid] = os.waitstatus_to_exitcode(status)


def _send(number: int, pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _children() -> set[int]:
    me = os.getpid()
    with contextlib.suppress(FileNotFoundError):  # not all kernels have it
        return set(map(int, Path(f"/proc/{me}/task/{me}/children").read_text().split()))
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent_of(pid) == me}


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
