"""Signals that reach all processes of a program, as a terminal and a scheduler of jobs send them.

They are for the program's own process, which may handle or ignore them; its helper processes must not end by
them. Faults of a process (SIGSEGV, …), job control and SIGCHLD are not among these.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

_OF_ONE_PROCESS = {
    "SIGKILL", "SIGSTOP", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCHLD", "SIGURG", "SIGWINCH",
    "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS",
}  # fmt: skip
FOR_ALL = frozenset(
    number for number in signal.valid_signals() if getattr(number, "name", "") not in _OF_ONE_PROCESS
)
"""Those that end a process which neither handles nor ignores them."""
_OF_A_TERMINAL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def hold() -> None:
    """Has this process go on when these signals come, unless it ignores them already, as by ``nohup``.

    Programs that it starts have their default again, which they would not if the signals were ignored.
    """
    _handle(FOR_ALL, lambda *_: None)


def hold_for(program: int) -> None:
    """Has this process go on when a signal comes that the program's process handles or ignores.

    Where that has the default action, this process ends by the signal, too: either the program ends by it, or
    the signal was for this process alone. SIGINT, SIGTERM, SIGHUP and SIGQUIT stay as they are: when the
    program ends by one of them, this process sees it and comes to its own end.

    Args:
        program: the process id.
    """

    def take(number: int, _: Any) -> None:
        if not _is_taken(program, number):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    _handle(FOR_ALL - _OF_A_TERMINAL, take)


def handle(number: int, handler: Callable[[int, Any], None]) -> None:
    """Has this process, and no child that it forks, handle a signal."""
    signal.signal(number, handler)
    signal.siginterrupt(number, False)
    _handlers[number] = handler


_handlers: dict[int, Callable[[int, Any], None]] = {}


def _handle(numbers: frozenset[int], handler: Callable[[int, Any], None]) -> None:
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            handle(number, handler)


def let_children_be_ended() -> None:
    """Has what this process forks end by these signals, from its first moment on."""
    masks = threading.local()

    def block() -> None:  # one that comes too early for the child waits
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _handlers)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def begin() -> None:
        try:
            for number, handler in _handlers.items():
                if number != signal.SIGINT and signal.getsignal(number) is handler:
                    signal.signal(number, signal.SIG_DFL)
        finally:
            unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=begin)


def _is_taken(pid: int, number: int) -> bool:
    """Whether the process handles or ignores the signal."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigIgn:", "SigCgt:"))]
        return any(mask >> (number - 1) & 1 for mask in masks)
    return False
