"""The processes that workers are forked from; each of them has one thread.

::

    the pool's process ──> zygote: one for all pools, with NumPy and Gymnasium loaded
                             └──> template: one per pool, with its factories and what they import
                                    └──> workers

The zygote ends when its line closes. What it forked dies with what forked it, by the kernel's hand.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import random
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from torchrl_pool.workers.messages import receive, send

_PRELOADED = ("numpy", "gymnasium")
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of prctl.h
_libc = ctypes.CDLL(None, use_errno=True)

#: One thread for each library: workers share the machine. What a user has set holds for them all the same.
ONE_THREAD = dict.fromkeys(_THREAD_COUNTS, "1")


@dataclass(frozen=True)
class Setup:
    """What a template takes over from the pool's process."""

    path: list[str]
    arguments: list[str]
    folder: str
    processors: set[int]
    environment: dict[str, str]
    factories: bytes
    unpickle: bool  # here and now, or else in each worker


@dataclass(frozen=True)
class Answer:
    """What became of the factories: ``"ready"``, ``"threads"`` where they made some, or an error's type."""

    kind: str
    traceback: str = ""


@dataclass(frozen=True)
class Launch:
    """A worker to fork, which calls ``module:function``."""

    target: str


@dataclass(frozen=True)
class Ended:
    """A question: how did the child of this id end?"""

    pid: int


def serve(fd: int) -> NoReturn:
    """The zygote: forks a template for each line that it is sent."""
    # Interrupts are for the pool's process. Programs that envs start would inherit that they are ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.siginterrupt(signal.SIGINT, False)
    # So are requests to end, which may be sent to a whole group of processes: they end with the pool's.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.siginterrupt(signal.SIGTERM, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # workers whose template was killed are reaped here too
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    line = socket.socket(fileno=fd)
    while True:
        try:
            _, (own, *output) = receive(line)
        except EOFError:
            os._exit(0)
        try:
            _fork(_run_template, own, output, line)
        except OSError as error:
            _reply(own, f"{type(error).__name__}: {error}")
        for received in (own, *output):
            os.close(received)


def _run_template(own: int, output: list[int], zygotes: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    zygotes.close()
    for number, fd in enumerate(output, start=1):
        os.dup2(fd, number)
        os.close(fd)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody is there any more
        _serve_pool(socket.socket(fileno=own))


def _serve_pool(line: socket.socket) -> None:
    _greet(line)
    setup, _ = receive(line)
    sys.path[:] = setup.path
    sys.argv[:] = setup.arguments
    os.environ.clear()
    os.environ.update(ONE_THREAD | setup.environment)
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, setup.processors)
    if setup.unpickle:
        answer, factories = _unpickle(setup.factories)
        send(line, answer)
        if answer.kind == "ready":
            _Template(line, lambda: factories).serve()
    else:
        send(line, Answer("ready"))
        _Template(line, lambda: pickle.loads(setup.factories)).serve()


def _greet(line: socket.socket) -> None:
    """Who this is, and a descriptor of it."""
    me = os.pidfd_open(os.getpid())
    send(line, os.getpid(), [me])
    os.close(me)


def _unpickle(factories: bytes) -> tuple[Answer, Any]:
    try:
        unpickled = pickle.loads(factories)
    except BaseException as error:
        kind = "ImportError" if isinstance(error, ImportError) else "RuntimeError"
        return Answer(kind, traceback.format_exc()), None
    if len(os.listdir("/proc/self/task")) > 1:  # threads do not live on in what is forked
        return Answer("threads"), None
    return Answer("ready"), unpickled


class _Template:
    """Forks workers, and keeps how they ended."""

    def __init__(self, line: socket.socket, factories: Callable[[], Any]) -> None:
        self._line = line
        self._factories = factories
        self._exit_codes: dict[int, int] = {}

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        gc.collect()
        gc.freeze()  # what is shared with the workers stays so
        while True:
            message, fds = receive(self._line)
            match message:
                case Launch(target):
                    self._launch(target, fds)
                case Ended(pid):
                    self._tell(pid, fds[0])
            for fd in fds:
                os.close(fd)

    def _launch(self, target: str, fds: list[int]) -> None:
        try:
            _fork(_run_worker, self._line, self._factories, target, fds)
        except OSError as error:
            _reply(fds[0], f"{type(error).__name__}: {error}")

    def _tell(self, pid: int, fd: int) -> None:
        self._reap()
        _reply(fd, self._exit_codes.pop(pid, None))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._exit_codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])


def _reply(fd: int, message: Any) -> None:
    with socket.socket(fileno=os.dup(fd)) as line, contextlib.suppress(OSError):
        send(line, message)


def _run_worker(templates: socket.socket, factories: Callable[[], Any], target: str, fds: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _let_children_be_ended()
    templates.close()
    own, *fds = fds
    channel = Connection(own)
    try:
        with socket.socket(fileno=os.dup(own)) as line:
            line.settimeout(None)  # what makes the envs may have set a default, which own would share
            _greet(line)
        pickled = channel.recv_bytes()
    except (EOFError, OSError):
        return  # nobody is there any more
    arguments = pickle.loads(pickled)
    given = factories()
    _draw_anew()
    module, _, name = target.partition(":")
    getattr(importlib.import_module(module), name)(given, channel, fds, *arguments)


def _let_children_be_ended() -> None:
    """What an env forks can be ended by SIGTERM, as ``multiprocessing`` does, from its first moment on."""
    masks = threading.local()

    def hold() -> None:  # one that comes too early for the child waits
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def begin() -> None:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        finally:
            let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=begin)


def _draw_anew() -> None:
    """Global random streams begin elsewhere in each worker: a fork has copied them."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.seed()


def _fork(run: Callable[..., None], *arguments: Any) -> int:
    """Calls this in a child that dies with the calling process; returns the child's id."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else it has died before it could be told
            run(*arguments)
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]  # waits for the worker's own threads
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(code)
