"""Processes below a guard: nothing that descends from one of them outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl.h
_libc = ctypes.CDLL(None, use_errno=True)
#: Seconds after which what was killed, and does not end, is left to the kernel.
_DYING_SECONDS = 2.0
_LOOKING_SECONDS = 0.002


def fork_guarded(run: Callable[[], None], status: int) -> None:
    """Calls this in a new process, whose parent is a guard: one that does nothing but wait.

    The kernel gives the guard what the process, or what descends from it, leaves behind. The guard waits for
    such orphans, so that they become neither zombies nor strange children of the process. When the process
    has ended, the guard ends all that is left. It passes SIGTERM on.

    Both die with the calling process.

    Args:
        run: called in the process; its SystemExit tells the exit code.
        status: a descriptor that the exit code is written to in the end, or why there is no process.
    """
    parent = os.getpid()
    try:
        if os.fork():
            return
    except OSError as error:
        _tell(status, f"{type(error).__name__}: {error}")
        return
    try:
        if _die_with(parent):
            _guard(run, status)
    finally:
        os._exit(0)


def _guard(run: Callable[[], None], status: int) -> None:
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        child = _fork(run, status)
    except OSError as error:
        _tell(status, f"{type(error).__name__}: {error}")
        return
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _close_all_but(status)
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)) and ended.si_pid != child:
        os.waitpid(ended.si_pid, 0)
    signal.signal(signal.SIGTERM, lambda *_: None)  # from here on the child's id may be another's
    _, code = os.waitpid(child, 0)
    end_children()
    _tell(status, str(os.waitstatus_to_exitcode(code)))


def _tell(status: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
        os.write(status, text.encode())


def end_children(seconds: float = 0.0) -> None:
    """Asks the children of this process to end, by SIGTERM; kills those that have not within so many seconds.

    What they leave behind is this process's own then, and is killed, too.
    """
    _send(signal.SIGTERM)
    end = time.monotonic() + seconds
    while _has_children() and time.monotonic() < end:
        time.sleep(_LOOKING_SECONDS)
    end = time.monotonic() + _DYING_SECONDS
    while _has_children() and time.monotonic() < end:
        _send(signal.SIGKILL)
        time.sleep(_LOOKING_SECONDS)


def _has_children() -> bool:
    """Whether there are some that have not ended; only the kernel's answer to this is complete."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _send(number: int) -> None:
    for pid in _children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _children() -> set[int]:
    """Those that are seen at once: one that is just forked, or ends, may hide others."""
    me = os.getpid()
    with contextlib.suppress(FileNotFoundError):  # not all kernels have it
        return set(map(int, Path(f"/proc/{me}/task/{me}/children").read_text().split()))
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent_of(pid) == me}


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _die_with(parent: int) -> bool:
    """Has the kernel kill this process when its parent ends; False where it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _close_all_but(kept: int) -> None:
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != kept:
            with contextlib.suppress(OSError):
                os.close(fd)


def _fork(run: Callable[[], None], status: int) -> int:
    """Calls this in a child that dies with the calling process; returns the child's id."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        os.close(status)
        if not _die_with(parent):
            os._exit(1)
        run()
    except BaseException as error:
        end_process(error)
    end_process()


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
