"""The process that workers are forked from, which has one thread.

::

    the pool's process ──> zygote: one for all pools, with NumPy, Gymnasium, and TorchRL once a pool needs it
                             └──> workers

What makes the envs, and all else that it imports, is loaded by each worker: so random streams that are begun
as a module is imported differ, and whatever an import does, the zygote goes on.

Each process ends when its line closes, and the zygote asks workers to end, which may close their envs first.
Where the zygote is killed, the kernel kills its workers; where a worker ends, the zygote kills what is left
of the worker's process group, and writes how it ended to a pipe that the pool's process reads.

The ``forkserver`` of multiprocessing takes as long (16 workers: 0.29 s of processor time, here 0.26 s), and
falls short: its children run the program again, which needs ``if __name__ == "__main__"``; what it has loaded
is fixed before the first pool (without TorchRL, two workers of its envs take 6 s); environment variables,
folder and outputs are those of that moment; and when the program is killed, workers in a long step live on,
as does what envs have started.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pickle
import random
import sys
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import process, resource_tracker, spawn, util
from typing import Any, NoReturn

from torchrl_pool._processes.children import Children
from torchrl_pool._processes.group_signals import hold_for, let_children_be_ended
from torchrl_pool._processes.lines import Line
from torchrl_pool._processes.pickling import load

_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Seconds that envs have to close after the end of their pool's process.
_CLOSING_SECONDS = 0.5

#: One thread for each library: workers share the machine. What a user has set holds for them all the same.
ONE_THREAD = dict.fromkeys(_THREAD_COUNTS, "1")


@dataclass(frozen=True)
class Setup:
    """What a pool's workers take over from its process."""

    path: list[str]
    arguments: list[str]
    folder: str
    processors: set[int]
    environment: dict[str, str]
    child: dict[str, Any]  # what multiprocessing prepares a child with
    identity: tuple[int, ...]  # of the pool's process, among those of multiprocessing
    pid: int
    factories: bytes
    num_descriptors: int  # that come with the factories


@dataclass(frozen=True)
class Answer:
    """What became of the factories: an error's type and its traceback, both empty where they are loaded."""

    kind: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class Launch:
    """What a worker does: it calls ``module:function`` with these arguments.

    ``number`` is counted as that of a child of multiprocessing.
    """

    target: str
    arguments: tuple[Any, ...]
    number: int


def serve(fd: int, preloaded: Sequence[str]) -> NoReturn:
    """The zygote: forks a worker for each list of modules that it is sent, which it imports before."""
    line, children = Line(fd), Children()
    _import(preloaded)
    with contextlib.suppress(EOFError):
        while children.reap_until(fd):
            modules, (own, status, *outputs) = line.receive()
            _import(modules)
            children.fork(partial(_begin, line, own, outputs), status)
            for descriptor in (own, *outputs):
                os.close(descriptor)
    children.end(_CLOSING_SECONDS)
    os._exit(0)


_tried: set[str] = set()


def _import(modules: Sequence[str]) -> None:
    """Imports what has not been tried yet. Where that fails, workers tell of it, which try again."""
    new = [name for name in modules if name not in _tried]
    if not new:
        return
    _tried.update(new)
    gc.disable()  # imports leave hardly any garbage, and looking for it takes a quarter of their time
    for name in new:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    util._flush_std_streams()  # type: ignore[attr-defined]
    gc.enable()
    gc.collect()
    gc.freeze()  # what is shared with the workers stays so


def _begin(line: Line, own: int, outputs: Sequence[int]) -> None:
    line.close()
    for number, fd in enumerate(outputs, start=1):
        os.dup2(fd, number)
        os.close(fd)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody is there any more
        _serve_pool(Line(own))


def _serve_pool(channel: Line) -> None:
    let_children_be_ended()
    _forget_what_ends_the_zygote()
    me = os.pidfd_open(os.getpid())
    channel.send(os.getpid(), [me])
    os.close(me)
    launch, (memory, tracker, pool, *given) = channel.receive()
    with open(f"/proc/self/fd/{memory}", "rb") as file:  # whose position is not that of other workers
        setup = pickle.load(file)
    os.close(memory)
    fds: list[int] = []
    while len(fds) < setup.num_descriptors:
        fds += channel.receive()[1]
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
    hold_for(setup.pid)
    worker = _Process(setup.pid, launch.number)
    worker.run = partial(_run, setup, fds, launch, channel, given)  # type: ignore[method-assign]
    sys.exit(worker._bootstrap(parent_sentinel=pool))  # type: ignore[attr-defined]


def _run(
    setup: Setup, descriptors: Sequence[int], launch: Launch, channel: Line, given: Sequence[int]
) -> None:
    _draw_anew()
    answer, factories = Answer(), None
    try:
        factories = load(setup.factories, descriptors)
    except BaseException as error:
        kind = "ImportError" if isinstance(error, ImportError) else "RuntimeError"
        answer = Answer(kind, traceback.format_exc())
    try:
        channel.send(answer)
    except ConnectionError:  # nobody is there any more
        return
    if not answer.kind:
        module, _, name = launch.target.partition(":")
        getattr(importlib.import_module(module), name)(factories, channel, given, *launch.arguments)


class _Process(process.BaseProcess):
    """A worker, to itself: what a child of multiprocessing is."""

    _start_method = None  # it stays as it was prepared

    def __init__(self, parent: int, number: int) -> None:
        super().__init__(daemon=False)
        self._identity = (*process.current_process()._identity, number)
        self._name = f"PoolWorker-{':'.join(map(str, self._identity))}"
        self._parent_pid = parent


def _forget_what_ends_the_zygote() -> None:
    """What runs as a worker ends is what was registered there."""
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _draw_anew() -> None:
    """Global random streams begin elsewhere in each worker: a fork has copied them."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.seed()
