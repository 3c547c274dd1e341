"""The processes that workers are forked from; each of them has one thread.

::

    the pool's process ──> zygote: one for all pools, with NumPy and Gymnasium loaded
                             └──> template: one per pool, with its factories and what they import
                                    └──> workers

Each of them ends when its line closes, and sees to it that what descends from it ends, too: workers, which
may close their envs first, and what envs have started. Where one is killed, the kernel kills what it has
forked.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import random
import signal
import socket
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import process, resource_tracker, spawn
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from torchrl_pool._workers.children import Children, adopt_orphans, die_with
from torchrl_pool._workers.messages import receive, receive_descriptors, send
from torchrl_pool._workers.pickling import load

_PRELOADED = ("numpy", "gymnasium")
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Seconds that envs have to close after the end of their pool's process; and templates, to see to that.
_CLOSING_SECONDS, _ENDING_SECONDS = 0.5, 3.0
#: What a terminal and others send to a whole group of processes: it is for the pool's own.
_FOR_ALL = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT

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
    child: dict[str, Any]  # what multiprocessing prepares a child with
    identity: tuple[int, ...]  # of this process, among those of multiprocessing
    pid: int
    factories: bytes
    num_descriptors: int  # that come with the factories
    unpickle: bool  # here and now, or else in each worker


@dataclass(frozen=True)
class Answer:
    """What became of the factories: ``"ready"``, ``"threads"`` where they made some, or an error's type."""

    kind: str
    traceback: str = ""


@dataclass(frozen=True)
class Launch:
    """A worker to fork, which calls ``module:function``.

    ``number`` is counted as that of a child of multiprocessing.
    """

    target: str
    number: int


@dataclass(frozen=True)
class Parent:
    """The pool's process: its id, and a descriptor of it."""

    pid: int
    pidfd: int


@dataclass(frozen=True)
class Ended:
    """A question: how did the child of this id end?"""

    pid: int


def serve(fd: int) -> NoReturn:
    """The zygote: forks a template for each line that it is sent."""
    # They end with the pool's process. Programs that envs start would inherit that a signal is ignored.
    for number in _FOR_ALL:
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:  # by nohup, say
            signal.signal(number, lambda *_: None)
            signal.siginterrupt(number, False)
    children = Children(tidy=True)  # workers whose template was killed, too
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    line = socket.socket(fileno=fd)
    while True:
        try:
            _, (own, *output) = receive(line)
        except EOFError:
            children.end(_ENDING_SECONDS)
            os._exit(0)
        try:
            children.fork(lambda: _fork(_run_template, own, output, line))  # noqa: B023
        except OSError as error:
            _reply(own, f"{type(error).__name__}: {error}")
        for received in (own, *output):
            os.close(received)


def _run_template(own: int, output: list[int], zygotes: socket.socket) -> None:
    zygotes.close()
    for number, fd in enumerate(output, start=1):
        os.dup2(fd, number)
        os.close(fd)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody is there any more
        _serve_pool(socket.socket(fileno=own))


def _serve_pool(line: socket.socket) -> None:
    _greet(line)
    setup, (tracker, pool) = receive(line)
    fds = receive_descriptors(line, setup.num_descriptors)
    sys.path[:] = setup.path
    sys.argv[:] = setup.arguments
    os.environ.clear()
    os.environ.update(ONE_THREAD | setup.environment)
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, setup.processors)
    spawn.prepare(setup.child)
    process.current_process()._identity = setup.identity
    resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]
    parent = Parent(setup.pid, pool)
    if setup.unpickle:
        answer, factories = _unpickle(setup.factories, fds)
        send(line, answer)
        if answer.kind == "ready":
            _Template(line, lambda: factories, parent).serve()
    else:
        send(line, Answer("ready"))
        _Template(line, lambda: load(setup.factories, fds), parent).serve()


def _greet(line: socket.socket) -> None:
    """Who this is, and a descriptor of it."""
    me = os.pidfd_open(os.getpid())
    send(line, os.getpid(), [me])
    os.close(me)


def _unpickle(factories: bytes, fds: Sequence[int]) -> tuple[Answer, Any]:
    try:
        unpickled = load(factories, fds)
    except BaseException as error:
        kind = "ImportError" if isinstance(error, ImportError) else "RuntimeError"
        return Answer(kind, traceback.format_exc()), None
    if len(os.listdir("/proc/self/task")) > 1:  # threads do not live on in what is forked
        return Answer("threads"), None
    return Answer("ready"), unpickled


class _Template:
    """Forks workers, and keeps how they ended."""

    def __init__(self, line: socket.socket, factories: Callable[[], Any], parent: Parent) -> None:
        self._line = line
        self._factories = factories
        self._parent = parent
        self._children = Children()

    def serve(self) -> None:
        gc.collect()
        gc.freeze()  # what is shared with the workers stays so
        try:
            while True:
                message, fds = receive(self._line)
                match message:
                    case Launch():
                        self._launch(message, fds)
                    case Ended(pid):
                        _reply(fds[0], self._children.exit_code(pid))
                for fd in fds:
                    os.close(fd)
        finally:
            self._children.end(_CLOSING_SECONDS)

    def _launch(self, launch: Launch, fds: list[int]) -> None:
        def fork() -> int:
            return _fork(_run_worker, self._line, self._factories, self._parent, launch, fds)

        try:
            self._children.fork(fork)
        except OSError as error:
            _reply(fds[0], f"{type(error).__name__}: {error}")


def _reply(fd: int, message: Any) -> None:
    with socket.socket(fileno=os.dup(fd)) as line, contextlib.suppress(OSError):
        send(line, message)


def _run_worker(
    templates: socket.socket, factories: Callable[[], Any], parent: Parent, launch: Launch, fds: list[int]
) -> None:
    adopt_orphans()  # so that it is known whose they are
    _let_children_be_ended()
    templates.close()
    own, *fds = fds
    channel = Connection(own)
    try:
        with socket.socket(fileno=os.dup(own)) as line:
            line.settimeout(None)  # what makes the envs may have set a default, which own would share
            _greet(line)
        arguments = channel.recv()
    except (EOFError, OSError):
        return  # nobody is there any more
    _forget_what_ends_the_template()
    module, _, name = launch.target.partition(":")

    def run() -> None:
        given = factories()
        _draw_anew()
        getattr(importlib.import_module(module), name)(given, channel, fds, *arguments)

    sys.exit(_Process(parent, launch.number, run).begin(parent))


class _Process(process.BaseProcess):
    """A worker, to itself: what a child of multiprocessing is."""

    _start_method = None  # it stays as it was prepared

    def __init__(self, parent: Parent, number: int, run: Callable[[], None]) -> None:
        super().__init__(target=run, daemon=False)
        self._identity = (*process.current_process()._identity, number)
        self._name = f"PoolWorker-{':'.join(map(str, self._identity))}"
        self._parent_pid = parent.pid

    def begin(self, parent: Parent) -> int:
        """Runs it; returns the exit code."""
        code: int = self._bootstrap(parent_sentinel=parent.pidfd)  # type: ignore[attr-defined]
        return code


def _forget_what_ends_the_template() -> None:
    """What runs as a worker ends is what was registered there."""
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _let_children_be_ended() -> None:
    """What an env forks can be ended by SIGTERM, as ``multiprocessing`` does, from its first moment on."""
    masks = threading.local()
    numbers = set(_FOR_ALL) - {signal.SIGINT}

    def hold() -> None:  # one that comes too early for the child waits
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def begin() -> None:
        try:
            for number in numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
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
        if die_with(parent):
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
