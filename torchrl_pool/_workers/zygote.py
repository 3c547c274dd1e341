"""The processes that workers are forked from; each of them has one thread.

::

    the pool's process ──> zygote: one for all pools, with NumPy and Gymnasium loaded
                             └──> template: one per pool, with its factories and what they import
                                    └──> workers

Templates and workers have a guard between them and their parent. Each process ends when its line closes, and
asks what it has forked to end: workers, which may close their envs first. Where one is killed, the kernel
kills what it has forked, and its guard what descends from it besides.

The ``forkserver`` of multiprocessing takes as long (16 workers: 0.29 s of processor time, here 0.26 s), and
falls short: its children run the program again, which needs ``if __name__ == "__main__"``; what it loads is
the same for all pools of a program, and fixed before the first (without, two workers of an env of TorchRL
take 6 s); environment variables, folder and outputs are those of that moment; and when the program is killed,
workers in a long step live on, as does what envs have started.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import random
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import process, resource_tracker, spawn, util
from typing import Any, NoReturn

from torchrl_pool._workers.guard import end_children, fork_guarded
from torchrl_pool._workers.lines import Line
from torchrl_pool._workers.pickling import load

_PRELOADED = (
    "numpy",
    "gymnasium",
    "torchrl_pool._workers.worker_process",
    "torchrl_pool._workers.gymnasium_adapter",
)
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
    """A worker to fork, which calls ``module:function`` with these arguments.

    ``number`` is counted as that of a child of multiprocessing.
    """

    target: str
    arguments: tuple[Any, ...]
    number: int


def serve(fd: int) -> NoReturn:
    """The zygote: forks a template for each line that it is sent."""
    # They end with the pool's process. Programs that envs start would inherit that a signal is ignored.
    for number in _FOR_ALL:
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:  # by nohup, say
            signal.signal(number, lambda *_: None)
            signal.siginterrupt(number, False)
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    _fork_on_request(Line(fd), lambda _, fds: _run_template(*fds), _ENDING_SECONDS)
    os._exit(0)


def _fork_on_request(line: Line, run: Callable[[Any, list[int]], None], seconds: float) -> None:
    """Forks a guarded process for each message, until the line closes.

    Args:
        line: where messages come from. The first two descriptors of each are the process's own line, and
            where its exit code is written to.
        run: what a process does with the message, its line's descriptor, and further ones.
        seconds: that the processes have to end then.
    """
    util._flush_std_streams()  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()  # what is shared with the processes stays so
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their guards tell how they end: nobody waits for those
    with contextlib.suppress(EOFError):
        while True:
            message, (own, status, *others) = line.receive()
            fork_guarded(partial(_begin, line, run, message, [own, *others]), status)
            for fd in (own, status, *others):
                os.close(fd)
    end_children(seconds)


def _begin(line: Line, run: Callable[[Any, list[int]], None], message: Any, fds: list[int]) -> None:
    line.close()
    run(message, fds)


def _run_template(own: int, *outputs: int) -> None:
    for number, fd in enumerate(outputs, start=1):
        os.dup2(fd, number)
        os.close(fd)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody is there any more
        _serve_pool(Line(own))


def _serve_pool(line: Line) -> None:
    _greet(line)
    setup, (tracker, pool) = line.receive()
    fds: list[int] = []
    while len(fds) < setup.num_descriptors:
        fds += line.receive()[1]
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
    if setup.unpickle:
        answer, factories = _unpickle(setup.factories, fds)
    else:
        answer, factories = Answer("ready"), None
    line.send(answer)
    if answer.kind == "ready":
        make = (lambda: factories) if setup.unpickle else (lambda: load(setup.factories, fds))

        def run(launch: Launch, fds_of_worker: list[int]) -> None:
            own, *given = fds_of_worker
            _run_worker(make, _Process(setup.pid, launch.number), pool, launch, Line(own), given)

        _fork_on_request(line, run, _CLOSING_SECONDS)


def _greet(line: Line) -> None:
    """Who this is, and a descriptor of it."""
    me = os.pidfd_open(os.getpid())
    line.send(os.getpid(), [me])
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


def _run_worker(
    make: Callable[[], Any], me: _Process, pool: int, launch: Launch, channel: Line, fds: list[int]
) -> None:
    _let_children_be_ended()
    _forget_what_ends_the_template()
    try:
        _greet(channel)
    except ConnectionError:
        return  # nobody is there any more
    module, _, name = launch.target.partition(":")

    def run() -> None:
        factories = make()
        _draw_anew()
        getattr(importlib.import_module(module), name)(factories, channel, fds, *launch.arguments)

    me.run = run  # type: ignore[method-assign]
    sys.exit(me._bootstrap(parent_sentinel=pool))  # type: ignore[attr-defined]


class _Process(process.BaseProcess):
    """A worker, to itself: what a child of multiprocessing is."""

    _start_method = None  # it stays as it was prepared

    def __init__(self, parent: int, number: int) -> None:
        super().__init__(daemon=False)
        self._identity = (*process.current_process()._identity, number)
        self._name = f"PoolWorker-{':'.join(map(str, self._identity))}"
        self._parent_pid = parent


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
