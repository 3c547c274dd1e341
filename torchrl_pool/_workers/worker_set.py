"""The envs of one pool, as the pool's own process sees them: in worker processes, or in itself."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from torchrl_pool import _core
from torchrl_pool._fork_aware_lock import fork_aware_lock
from torchrl_pool._processes.launching import (
    ChildProcess,
    Factories,
    Launcher,
    occupy_standard_streams,
    tell_of_waiting,
)
from torchrl_pool._processes.lines import tells_of_an_end
from torchrl_pool._processes.pickling import dumps
from torchrl_pool._workers.advice import advice_on
from torchrl_pool._workers.entries import Entry
from torchrl_pool._workers.info_channel import InfoChannel, LocalChannel, SharedChannel, Told
from torchrl_pool._workers.worker import (
    LOST,
    Attachment,
    Description,
    InfoOptions,
    RequestFailure,
    Worker,
    report_of,
)

_TARGET = "torchrl_pool._workers.worker_process:main"
#: Seconds that envs have to close before their worker is ended; and to come back first, if they are at work.
CLOSING_SECONDS = 10.0
RETURNING_SECONDS = 1.0
#: Seconds that a worker whose envs are closed has to end by itself, before it is killed.
LEAVING_SECONDS = 1.0


class Question(NamedTuple):
    """What a worker is asked for, ready to be sent."""

    worker: int
    number: int  # which its answer has, too
    data: bytes


class WorkerSet:
    """Where the envs of one pool live: in worker processes, or in this one.

    The first env is made at once, for what it says of itself, and so is the first of each further callable;
    all others when the set is opened. An executor calls the methods ``serve``, ``how_it_ended``, ``respawn``,
    ``save`` and ``load``.

    Args:
        factories: what makes an env, or one such for each.
        num_envs: number of envs.
        num_workers: processes, which have equal shares of the envs; 0: the envs are in this process.
        options: which infos the pool returns.
        respawns: whether a worker that has ended is replaced in the midst of a call.
        step_timeout: seconds that a further callable may take to make its env; ``None``: as long as it takes.

    Attributes:
        descriptions: of each env; where bounds are the same, one object.
        num_processes: the worker processes.

    Raises:
        RequestFailure: the first env cannot be made, or cannot be one of a pool.
    """

    def __init__(
        self,
        factories: Factories,
        num_envs: int,
        num_workers: int,
        options: InfoOptions,
        respawns: bool,
        step_timeout: float | None = None,
    ) -> None:
        self._factories = factories
        self._info_options = options
        self._channels: list[InfoChannel] = []  # of each worker, where infos are passed on
        self.respawns = respawns
        self.processes: list[int] = []  # descriptors of them, which the executor has as long as it lives
        self._workers: list[ChildProcess] = []
        self._counter = itertools.count(1)
        self._replacing = fork_aware_lock()
        self._launcher: Launcher | None = None
        self._local: Worker | None = None
        self._memory = -1
        self._info_memory: list[int] = []  # of each process
        self._arena: _core.Arena | None = None
        self.num_processes = num_workers
        self.first_env = _first_envs(num_envs, num_workers)
        self._numbers = [0] * num_workers  # of the last question to each worker
        self._locks = [fork_aware_lock() for _ in range(num_workers)]
        try:
            self._begin()
            self.descriptions = self._describe(self._first_description(), num_envs, step_timeout)
        except BaseException:
            self.close()
            raise
        self.entries = self.entries_of(self.descriptions[0])

    @property
    def has_local(self) -> bool:
        """Whether the envs are in this process."""
        return self.num_processes == 0

    def _begin(self) -> None:
        """As far as env 0 needs it."""
        self._process = os.getpid()
        occupy_standard_streams()
        tells = self._info_options.passed != ()
        if self.has_local:
            self._channels = [LocalChannel()] if tells else []
            channel = self._channels[0] if tells else None
            self._local = Worker(self._factories, self._info_options, channel, is_local=True)
            self._memory = _memory_without_name()
            return
        if tells:
            self._info_memory = [_memory_without_name() for _ in range(self.num_processes)]
            self._channels = [SharedChannel(memory) for memory in self._info_memory]
        self._launcher = Launcher(self._factories)
        self._memory = _memory_without_name()
        self._workers = [self._launch(0)]

    def _first_description(self) -> Description:
        """What env 0 says of itself, which may take long to be made."""
        if self.has_local:
            return cast(Description, self.ask(0, "describe", 0))
        self._send(self._question(0, "describe", (0,)))
        tell_of_waiting(self._workers[0].channel, "the first environment to be made")
        return cast(Description, self._result(0, -1))

    def _describe(self, first: Description, num_envs: int, step_timeout: float | None) -> list[Description]:
        if callable(self._factories):
            return [first] * num_envs
        first_of: dict[int, int] = {}  # of each callable, its first env
        for env, factory in enumerate(self._factories):
            first_of.setdefault(id(factory), env)
        others = [env for env in first_of.values() if env > 0]
        known = {first.entries: first}
        found = {0: first}
        for env, description in zip(others, self._differing(others, first, step_timeout), strict=True):
            found[env] = known.setdefault(description.entries, description)
        return [found[first_of[id(factory)]] for factory in self._factories]

    def _differing(
        self, envs: Sequence[int], first: Description, step_timeout: float | None
    ) -> list[Description]:
        """The descriptions of these envs, made by all their workers at the same time."""
        descriptions = [first] * len(envs)
        if self._local is not None:
            return [value or first for value in self._local.differing(envs, first)]
        shares = self.shares_of(envs)
        self._launch_missing(max(shares, default=0) + 1)
        questions = [
            self._question(index, "differing", ([envs[i] for i in share], first))
            for index, share in shares.items()
        ]
        for question in questions:
            self._send(question)
        for index, share in shares.items():
            worker = self._workers[index]
            timeout = None if step_timeout is None else step_timeout * len(share)
            if not worker.channel.poll(timeout):
                worker.kill()
            try:
                values = self._result(index, -1)
            except RequestFailure:  # its process has ended, as it will again, and be told
                continue
            for i, value in zip(share, values, strict=True):
                descriptions[i] = value or first
        return descriptions

    def entries_of(self, description: Description) -> list[Entry]:
        """Those that an env has in the pool."""
        return [*description.entries, *([LOST] if self.respawns else [])]

    def _launch(self, index: int) -> ChildProcess:
        assert self._launcher is not None
        return self._launcher.launch(_TARGET, self._info_options, fds=self._memory_of(index))

    def _memory_of(self, index: int) -> list[int]:
        return [self._memory, *self._info_memory[index : index + 1]]

    def _launch_missing(self, count: int) -> None:
        """So that there are as many workers, at least."""
        fds = [self._memory_of(i) for i in range(len(self._workers), min(count, self.num_processes))]
        if fds:
            assert self._launcher is not None
            self._workers += self._launcher.launch_many(_TARGET, self._info_options, fds=fds)

    @property
    def arena(self) -> _core.Arena:
        assert self._arena is not None
        return self._arena

    def open(self) -> None:
        """Starts what has not yet been started; then an executor may have the envs made."""
        if self._arena is not None or self._process != os.getpid():
            self._end()  # an interrupted close has left it, or the process that this one was forked from
        if self._memory < 0:
            self._begin()
        self._arena = _core.Arena(self._memory, self.first_env, self.entries, True)
        for index, worker in enumerate(self._workers):
            if worker.wait(0):
                self._workers[index] = self._launch(index)
                worker.close()
        self._launch_missing(self.num_processes)
        for worker in self._workers:
            self.processes.append(os.dup(worker.pidfd))
        for index in range(self.num_processes):
            self._attach(index)
        if self._local is not None:
            self._local.attach(self._attachment(0), self._arena)
            self.processes.append(-1)

    def _attach(self, index: int, lost: str = "") -> None:
        self._send(self._question(index, "attach", (self._attachment(index, lost),)))
        self._result(index, -1)

    def _attachment(self, index: int, lost: str = "") -> Attachment:
        return Attachment(index, tuple(self.first_env), tuple(self.entries), self.respawns, lost)

    # ---- what the executor asks for --------------------------------------------------------------------

    @property
    def serve(self) -> Callable[[], None]:
        """Does what the local worker is asked for, with no call of Python's between it and the executor."""
        assert self._local is not None
        return self._local.server(waits=False)

    def advice(self) -> str:
        """Where the envs would run faster, as far as their steps have shown; empty: where they are."""
        if self._arena is None:
            return ""
        num_envs = self.first_env[-1]
        return advice_on(self.num_processes, num_envs, _core.available_cpus(), *self._arena.step_time)

    def advise(self) -> None:
        """Logs that, once steps have shown it."""
        with contextlib.suppress(Exception):  # of the program's own handlers and filters
            if advice := self.advice():
                logging.getLogger("torchrl_pool").warning(advice)

    def how_it_ended(self, index: int) -> str:
        """In words that follow "its worker process"."""
        return self._workers[index].how_it_ended()

    def respawn(self, index: int) -> int:
        """Another process in the place of one that has ended; returns its descriptor."""
        with self._locks[index]:
            old = self._workers[index]
            old.kill()  # an interrupt may have kept from the executor that it was there
            old.wait(LEAVING_SECONDS)
            worker = self._launch(index)
            try:
                self._workers[index] = worker
                self._attach(index, old.how_it_ended())
                # The executor goes on with the descriptor that it has. Whatever interrupts this, it is never
                # left with one that is closed, or that has become another file's.
                os.dup2(worker.pidfd, self.processes[index], inheritable=False)
            except BaseException:  # an interrupt, say: the next call tries again
                worker.kill()
                worker.close()
                if self._workers:  # else an interrupted close has ended all
                    self._workers[index] = old
                raise
            old.close()
            return self.processes[index]

    def replace(self, pool: _core.Pool, index: int) -> None:
        """Another process in the place of one that has ended, between two calls."""
        with self._replacing:
            if index in pool.ended_workers():  # else another thread has replaced it
                pool.replace_worker(index, self.respawn(index))

    def save(self, env: int) -> bytes:
        state: bytes = self.ask(self.worker_of(env), "save", env)
        return state

    def load(self, env: int, state: bytes) -> None:
        self.ask(self.worker_of(env), "load", env, state)

    def take_infos(self) -> Told:
        """What envs have told since the last time, beside their rows, in the order of their workers."""
        told: Told = []
        for channel in self._channels:
            told += channel.take()
        return told

    # ---- what users ask for ----------------------------------------------------------------------------

    def worker_of(self, env: int) -> int:
        return next(i for i, end in enumerate(self.first_env[1:]) if env < end)

    def shares_of(self, envs: Sequence[int]) -> dict[int, list[int]]:
        """Which of these envs lie in which worker, by their positions in the sequence."""
        shares: dict[int, list[int]] = {}
        for position, env in enumerate(envs):
            shares.setdefault(self.worker_of(env), []).append(position)
        return shares

    def ask(self, index: int, name: str, *arguments: Any) -> Any:
        """Has a worker call one of its methods, between two requests of the executor.

        Raises:
            RequestFailure: it failed there; ``env`` is -1 where the worker has ended.
        """
        if self._local is not None:
            try:
                return getattr(self._local, name)(*arguments)
            except RequestFailure:
                raise
            except Exception as error:
                raise RequestFailure(-1, report_of(error)) from error
        with self._locks[index]:
            self._send(self._question(index, name, arguments))
            return self._result(index, -1)

    def ask_each(self, envs: Sequence[int], name: str, arguments: Any) -> list[Any]:
        """The same of all workers of these envs, at the same time: one result for each env.

        Args:
            envs: numbers of envs.
            name: a method of the worker that takes numbers of envs first.
            arguments: what else it is given, for the positions of its envs in the sequence.
        """
        if self._local is not None:
            values: list[Any] | None = getattr(self._local, name)(envs, *arguments(range(len(envs))))
            return values or [None] * len(envs)
        shares = self.shares_of(envs)
        results: list[Any] = [None] * len(envs)
        failures: list[RequestFailure] = []

        def ask() -> None:
            questions = [
                self._question(index, name, ([envs[i] for i in share], *arguments(share)))
                for index, share in shares.items()
            ]
            for question in questions:
                self._send(question)
            for index, share in shares.items():
                try:
                    values = self._result(index, envs[share[0]])
                except RequestFailure as failure:
                    failures.append(failure)
                    continue
                for i, value in zip(share, values or [None] * len(share), strict=True):
                    results[i] = value

        self._locked(sorted(shares), ask)
        if failures:
            raise min(failures, key=lambda failure: failure.env)
        return results

    def _locked(self, indices: Sequence[int], call: Callable[[], None]) -> None:
        """With the locks of these workers, in blocks inside of each other, which no signal cuts in two."""
        if not indices:
            return call()
        with self._locks[indices[0]]:
            self._locked(indices[1:], call)

    def _question(self, index: int, name: str, arguments: Sequence[Any]) -> Question:
        """A question to a worker, pickled: what may be refused is refused here, before anything is sent."""
        self._workers[index].wait_until_loaded()
        known = {} if self._launcher is None else self._launcher.names
        number = next(self._counter)
        return Question(index, number, dumps((number, name, arguments), known))

    def _send(self, question: Question, seconds: float | None = None) -> None:
        index = question.worker
        worker, self._numbers[index] = self._workers[index], question.number
        try:
            # Answers that an interrupt or a refusal has left unread would fill the socket.
            while worker.channel.poll():
                worker.channel.recv_bytes()
            worker.channel.send_bytes(question.data, seconds=seconds)
        except (EOFError, OSError) as error:
            if not tells_of_an_end(error):  # of which the answer tells
                raise
        if self._arena is not None:
            self._arena.send_word(index)

    def _result(self, index: int, env: int, deadline: float | None = None) -> Any:
        """The answer to the last question; None where there is none by then."""
        worker = self._workers[index]
        number = -1
        while number != self._numbers[index]:  # there may be answers that an interrupt has left behind
            try:
                timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
                if not worker.channel.poll(timeout):
                    return None
                answer = worker.channel.recv_bytes()
            except (EOFError, OSError) as error:
                if not tells_of_an_end(error):
                    raise
                raise RequestFailure(env, f"its worker process {worker.why_it_is_silent()}") from None
            number, is_fine, value = pickle.loads(answer)
        if not is_fine:
            raise value
        return value

    # ---- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Has all envs closed, and ends their processes.

        Raises:
            RequestFailure: an env failed in its ``close()``, after all were closed.
        """
        failures: list[RequestFailure] = []
        try:
            if self._local is not None:
                try:
                    self._local.close()
                except RequestFailure as failure:
                    failures.append(failure)
            start = time.monotonic()
            deadlines = [start + self._closing_seconds(index) for index in range(len(self._workers))]
            asked = []
            for index, deadline in enumerate(deadlines):
                worker = self._workers[index]
                if worker.is_loaded and not worker.channel.closed:  # by a fork: then it is another process's
                    with contextlib.suppress(TimeoutError):  # it does not read
                        question = self._question(index, "close", ())
                        self._send(question, max(deadline - time.monotonic(), 0.001))
                        asked.append(index)
            for index in asked:
                try:
                    self._result(index, -1, deadlines[index])
                except RequestFailure as failure:
                    failures += [failure] if failure.env >= 0 else []  # one that has ended is closed
            leaving = time.monotonic() + LEAVING_SECONDS
            for index in asked:  # who ends by itself leaves the files that it means to leave
                self._workers[index].wait(max(leaving - time.monotonic(), 0))
        finally:
            self._end()
        if failures:
            raise failures[0]

    def _closing_seconds(self, index: int) -> float:
        at_work = self._arena is not None and self._arena.is_at_work(index)
        return RETURNING_SECONDS if at_work else CLOSING_SECONDS

    def _end(self) -> None:
        # Nothing can come between these: what one thread takes, no other one finds.
        workers, self._workers = self._workers, []
        processes, self.processes = self.processes, []
        info_memory, self._info_memory = self._info_memory, []
        memory, self._memory = self._memory, -1
        launcher, self._launcher = self._launcher, None
        self._arena, self._local, self._channels = None, None, []
        # What follows comes to its end when it is interrupted, too.
        with contextlib.ExitStack() as ending:
            for descriptor in (memory, *info_memory, *processes):
                if descriptor >= 0:
                    ending.callback(os.close, descriptor)
            if launcher is not None:
                ending.callback(launcher.close)
            for worker in workers:
                ending.callback(worker.close)
            for worker in workers:
                worker.kill()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._end()


def _first_envs(num_envs: int, num_workers: int) -> list[int]:
    """Of each worker, or of this process, and the number of envs."""
    count = max(num_workers, 1)
    return [num_envs * worker // count for worker in range(count + 1)]


def _memory_without_name() -> int:
    """A descriptor of memory that processes can share, and that ends with them."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("torchrl_pool", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
