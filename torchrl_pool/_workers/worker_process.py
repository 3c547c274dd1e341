"""The program of a worker process: it answers its pool until it is told to end, or the pool is gone."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

from torchrl_pool import _core
from torchrl_pool._processes.group_signals import handle
from torchrl_pool._processes.lines import Line
from torchrl_pool._workers.info_channel import SharedChannel
from torchrl_pool._workers.worker import Factories, InfoOptions, RequestFailure, Worker, pickled, report_of


def main(factories: Factories, channel: Line, fds: list[int], options: InfoOptions) -> None:
    """A worker process, until its channel is closed or it is told to end."""
    infos = SharedChannel(fds[1], pickled) if len(fds) > 1 else None
    worker = Worker(factories, options, infos)
    os.register_at_fork(after_in_child=worker.disown)
    _end_with_the_pool(worker, channel)
    has_pool, reserve = False, _Reserve()
    with contextlib.suppress(EOFError, OSError):  # an env may have closed it, too
        while True:
            if has_pool:
                worker.server(waits=True)()
            while not has_pool or channel.poll():
                with reserve.spent():
                    number, name, arguments = channel.recv()
                if name == "attach":
                    (attachment,) = arguments
                    arena = _core.Arena(fds[0], list(attachment.first_env), list(attachment.entries), False)
                    arguments, has_pool = (attachment, arena), True
                answer = _answer(number, worker, name, arguments)
                if name == "close":
                    _end_program()
                with reserve.spent():
                    _send(channel, number, answer)
                if name == "close":
                    return
    _leave(worker)


class _Reserve:
    """A descriptor for the channel's messages, which may need one: envs may have taken all others."""

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def spent(self) -> Iterator[None]:
        """Within this there is one more to be had."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        yield
        with contextlib.suppress(OSError):
            self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _send(channel: Line, number: int, answer: bytes) -> None:
    """Answers; where the system has no descriptor or memory for the answer, it says so in a shorter one."""
    try:
        channel.send_bytes(answer)
    except ConnectionError:
        raise
    except OSError as error:
        failure = RequestFailure(-1, f"the worker process cannot answer: {error}")
        channel.send_bytes(pickled((number, False, failure)))


def _end_with_the_pool(worker: Worker, channel: Line) -> None:
    """Has envs closed when the pool's process is gone, of which a SIGTERM tells.

    One that comes while it is there, to a whole group of processes, say, is for that process.
    """

    def look(*_: Any) -> None:
        if channel.is_left():
            _leave(worker)
            os._exit(0)

    handle(signal.SIGTERM, look)


def _leave(worker: Worker) -> None:
    """Closes the envs where nobody is there to be told how that went."""
    handle(signal.SIGTERM, lambda *_: None)
    for act in (worker.close, _end_program):
        with contextlib.suppress(BaseException):
            act()


def _end_program() -> None:
    """What happens as a program ends, since this process will be killed."""
    _end_daemons()
    multiprocessing.util._run_finalizers()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    multiprocessing.util._flush_std_streams()  # type: ignore[attr-defined]


def _end_daemons() -> None:
    """What multiprocessing does as a program ends: envs' daemonic processes are asked to end, too."""
    daemons = [
        child
        for child in multiprocessing.active_children()
        if child.daemon and child._parent_pid == os.getpid()  # type: ignore[attr-defined]
    ]
    for child in daemons:
        child.terminate()
    for child in daemons:
        child.join(1.0)
        if child.is_alive():
            child.kill()


def _answer(number: int, worker: Worker, name: str, arguments: Sequence[Any]) -> bytes:
    """(the question's number, whether it went well, the result or the failure), pickled."""
    try:
        result = getattr(worker, name)(*arguments)
        worker.end_if_forked()
        return pickled((number, True, result))
    except BaseException as error:
        worker.end_if_forked(error)
        failure = error if isinstance(error, RequestFailure) else RequestFailure(-1, report_of(error))
        return pickled((number, False, failure))
