"""The processes that a zygote has forked: started, reaped, and ended with what they have started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl.h
_libc = ctypes.CDLL(None, use_errno=True)
#: Seconds after which what was killed, and does not end, is left to the kernel.
_DYING_SECONDS = 2.0


class Children:
    """The children of this process, each of which leads a process group of its own.

    Signals to the group of the program do not reach them. When one has ended, what is left of its group is
    killed. Processes that lose their parents become children of this process, which reaps them.
    """

    def __init__(self) -> None:
        self._status_of: dict[int, int] = {}  # of each child, the descriptor that its exit code is written to
        self._wakeup, self._writing = os.pipe()
        for fd in (self._wakeup, self._writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written there
        signal.siginterrupt(signal.SIGCHLD, False)
        self._blocked = signal.pthread_sigmask(
            signal.SIG_UNBLOCK, {signal.SIGCHLD}
        )  # a child blocks it again
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def fork(self, run: Callable[[], None], status: int) -> None:
        """Calls this in a child, which dies with this process.

        Args:
            run: its SystemExit gives the exit code.
            status: a descriptor, taken over, that gets the exit code, or why there is no process.
        """
        parent = os.getpid()
        try:
            child = os.fork()
        except OSError as error:
            _write(status, f"{type(error).__name__}: {error}")
            return
        if child:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the child has done it
                os.setpgid(child, child)
            self._status_of[child] = status
            return
        try:
            os.setpgid(0, 0)
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
            for fd in (status, self._wakeup, self._writing, *self._status_of.values()):
                os.close(fd)
            if os.getppid() != parent:
                os._exit(1)
            run()
        except BaseException as error:
            end_process(error)
        end_process()

    def reap_until(self, readable: int, seconds: float | None = None) -> bool:
        """Whether a descriptor is readable within so many seconds, in which children that end are reaped."""
        poll = select.poll()
        poll.register(readable, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            self._reap()
            left = None if end is None else max(end - time.monotonic(), 0) * 1000
            ready = {fd for fd, _ in poll.poll(left)}
            if readable in ready:
                return True
            if not ready:
                return False
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)

    def end(self, seconds: float) -> None:
        """Asks all to end by SIGTERM, and kills those that have not within so many seconds."""
        for child in self._status_of:
            os.kill(child, signal.SIGTERM)
        nothing, writing = os.pipe()
        self._end_within(nothing, seconds)
        for child in self._status_of:
            _kill_group(child)
        self._end_within(nothing, _DYING_SECONDS)
        os.close(nothing)
        os.close(writing)

    def _end_within(self, nothing: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._status_of and (left := end - time.monotonic()) > 0:
            self.reap_until(nothing, min(left, 0.05))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                # Before it is reaped no other process can have its id.
                status = self._status_of.pop(ended.si_pid, None)
                if status is not None:
                    _kill_group(ended.si_pid)
                _, code = os.waitpid(ended.si_pid, 0)
                if status is not None:
                    _write(status, str(os.waitstatus_to_exitcode(code)))


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _write(status: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the pool has closed its end
        os.write(status, text.encode())
    os.close(status)


def end_process(error: BaseException | None = None) -> NoReturn:
    """Ends a forked process, as Python does where its program has come to its end, or has raised this."""
    code = 0
    try:
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = error.code or 0
        elif error is not None:
            code = 1
            traceback.print_exception(error)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(code)
