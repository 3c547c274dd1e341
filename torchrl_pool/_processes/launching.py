"""Worker processes of a pool: started, watched, ended."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Collection, Sequence
from multiprocessing import get_start_method, process, resource_tracker, spawn, util
from typing import Any, NamedTuple, TypeAlias

from torchrl_pool._fork_aware_lock import fork_aware_lock
from torchrl_pool._processes.changed_modules import with_hint
from torchrl_pool._processes.group_signals import FOR_ALL
from torchrl_pool._processes.lines import MOST_DESCRIPTORS, Line, is_ready, memory_with, tells_of_an_end
from torchrl_pool._processes.pickling import dump
from torchrl_pool._processes.preloading import folders, known_packages, needed_by, needed_by_all
from torchrl_pool._processes.zygote import ONE_THREAD, Answer, Launch, Setup

Factories: TypeAlias = "Sequence[Callable[[], Any]] | Callable[[], Any]"

#: Seconds within which a process must have started, with all imports; or must have unpickled the factories.
STARTING_SECONDS = 600.0
#: Workers that are asked for at a time: the system limits descriptors that are under way, of all of a user.
MOST_AT_ONCE = 16
#: Seconds of waiting after which a line on the terminal says what for.
TELLING_SECONDS = 2.0
#: Seconds that a process has to end by itself, before it is killed.
ENDING_SECONDS = 5.0
#: Seconds between the end of a process's line and its own, at most.
NOTICING_SECONDS = 1.0

# The path may be longer than an argument.
_BOOT = """
import json, signal, sys
with open(int(sys.argv[2])) as memory: sys.path[:], modules, blocked = json.load(memory)
signal.signal(signal.SIGINT, lambda *_: None)
from torchrl_pool._processes.group_signals import hold; hold()
signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
from torchrl_pool._processes.zygote import serve; serve(int(sys.argv[1]), modules)
"""


class ChildProcess:
    """A process that was forked for this one by a zygote, which it keeps.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that is readable once it has ended.
        channel: what it is talked to over.
        is_loaded: whether it has unpickled the factories, and with them has imported all that they need.
    """

    def __init__(self, channel: Line, status: int, zygote: _Zygote) -> None:
        self.pid = self.pidfd = -1
        self.channel = channel
        self.is_loaded = False
        self._status = status  # where the zygote writes its exit code
        self._zygote: _Zygote | None = zygote
        self._end = ""
        self._asking = fork_aware_lock()  # how it ended, which is read once
        _held.add(self)

    def wait_until_started(self) -> None:
        """Before all else.

        Raises:
            RuntimeError: it could not be started.
        """
        try:
            self.pid, (self.pidfd,) = self.channel.receive(STARTING_SECONDS)
        except TimeoutError:
            raise RuntimeError("The process that starts workers did not answer in time.") from None
        except EOFError:
            reason = os.read(self._status, 1000).decode(errors="replace")
            if not reason or reason.lstrip("-").isdigit():  # its exit code
                raise RuntimeError(f"The process that starts workers, of {_python()}, has ended.") from None
            raise RuntimeError(f"No process could be started: {reason}") from None

    def wait_until_loaded(self) -> None:
        """Before it is asked for anything.

        Raises:
            ImportError: the factories import what is not there; the message holds the traceback.
            RuntimeError: they cannot be unpickled for another reason.
        """
        if self.is_loaded:
            return
        what = "The callable that makes the envs cannot be loaded in a worker process"
        try:
            tell_of_waiting(self.channel, "a worker process to import what makes the environments")
            answer: Answer = self.channel.recv(STARTING_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"{what}: it took more than {STARTING_SECONDS:.0f} seconds.") from None
        except (EOFError, OSError) as error:
            if not tells_of_an_end(error):
                raise
            raise RuntimeError(f"{what}, which {self.why_it_is_silent()} meanwhile.") from None
        if answer.kind:
            kind = ImportError if answer.kind == "ImportError" else RuntimeError
            raise kind(f"{what}.\n\n{with_hint(answer.traceback)}")
        self.is_loaded = True

    def kill(self) -> None:
        """Ends it at once, where it has not ended yet."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so many seconds."""
        return self.pidfd < 0 or is_ready(self.pidfd, select.POLLIN, seconds)

    def how_it_ended(self) -> str:
        """Such as ``"was killed by signal 9 (SIGKILL)"`` or ``"ended with exit code 3"``."""
        with self._asking:
            if not self._end:
                if not self.wait(0):
                    return "is running"
                has_told = self._status >= 0 and is_ready(self._status, select.POLLIN, ENDING_SECONDS)
                self._end = _in_words(os.read(self._status, 100).decode() if has_told else "")
            return self._end

    def why_it_is_silent(self) -> str:
        """The same of one that has closed its channel. If an env has closed that, the process is ended."""
        if not self.wait(NOTICING_SECONDS):
            self._end = "was ended, for its channel is closed"
            self.kill()
        return self.how_it_ended()

    def close(self) -> None:
        """Gives its descriptors back; the process sees its channel closed."""
        self.channel.close()
        fds = self.pidfd, self._status
        self.pidfd = self._status = -1
        self._zygote = None
        for fd in fds:
            if fd >= 0:
                os.close(fd)


class Launcher:
    """Starts the workers of a pool, from any thread.

    Args:
        factories: what makes the envs; lambdas too, and what ``__main__`` defines.

    Attributes:
        names: what the workers' ``__main__`` has of this one's.

    Raises:
        TypeError: the factories cannot be pickled.
    """

    def __init__(self, factories: Factories) -> None:
        pickled = dump(factories)
        self.names = pickled.names
        self._modules = needed_by(pickled.modules)
        self._surroundings = _Surroundings.of_now()
        setup = Setup(
            path=list(map(str, sys.path)),
            arguments=sys.argv,
            folder=_folder(),
            processors=os.sched_getaffinity(os.getpid()),  # the main thread's; others may be pinned
            environment=dict(os.environ),
            child=_of_a_child(),
            identity=process.current_process()._identity,
            pid=os.getpid(),
            factories=pickled.data,
            num_descriptors=len(pickled.fds),
        )
        self._process = os.getpid()
        self._zygote: _Zygote | None = None
        self._fds = [memory_with(pickle.dumps(setup))]
        try:
            for fd in pickled.fds:
                self._fds.append(os.dup(fd))
        except BaseException:
            self.close()
            raise

    def launch(self, target: str, *arguments: Any, fds: Sequence[int] = ()) -> ChildProcess:
        """Starts one worker: see :meth:`launch_many`."""
        (worker,) = self.launch_many(target, *arguments, fds=[fds])
        return worker

    def launch_many(self, target: str, *arguments: Any, fds: Sequence[Sequence[int]]) -> list[ChildProcess]:
        """Starts workers at the same time, which go on to load the factories.

        Args:
            target: ``"module:function"``, imported in the workers, where it is called as
                ``function(factories, channel, fds, *arguments)``.
            arguments: what can be pickled.
            fds: for each worker descriptors, of which it gets its own.

        Raises:
            RuntimeError: this is closed, or no process can be started.
        """
        if not self._fds or self._process != os.getpid():
            raise RuntimeError("What starts workers is closed, or belongs to another process.")
        workers: list[ChildProcess] = []
        try:
            while len(workers) < len(fds):  # the first one by itself: it may wait for imports
                first, count = len(workers), MOST_AT_ONCE if workers else 1
                asked_for = fds[first : first + count]
                for _ in asked_for:
                    workers.append(self._begun())
                if first == 0:
                    imports = ", ".join(["gymnasium", *self._modules])
                    tell_of_waiting(workers[0].channel, f"the import of {imports}")
                for worker, own in zip(workers[first:], asked_for, strict=True):
                    worker.wait_until_started()
                    number = next(process._process_counter)  # type: ignore[attr-defined]
                    self._set_up(worker, Launch(target, arguments, number), own)
        except BaseException:  # an interrupt, too: the zygote may hang in an import
            self._give_up_zygote()
            for worker in workers:
                worker.kill()
                worker.close()
            raise
        return workers

    def _begun(self) -> ChildProcess:
        """A worker that has yet to start, and to be set up."""
        channel, theirs = Line.pair()
        with contextlib.ExitStack() as undo:
            undo.callback(channel.close)
            status, writing = os.pipe()
            undo.callback(os.close, status)
            try:
                zygote = self._ask_zygote([theirs.fileno(), writing, 1, 2])
            finally:
                theirs.close()
                os.close(writing)
            undo.pop_all()
            return ChildProcess(channel, status, zygote)

    def _set_up(self, worker: ChildProcess, launch: Launch, fds: Sequence[int]) -> None:
        if not (own := self._fds):  # another thread has closed it
            raise RuntimeError("What starts workers is closed.")
        memory, *others = own
        tracker = resource_tracker.getfd()  # what keeps account of shared memory is one for all
        assert tracker is not None
        me = os.pidfd_open(os.getpid())
        try:
            worker.channel.send(launch, [memory, tracker, me, *fds])
            for first in range(0, len(others), MOST_DESCRIPTORS):
                worker.channel.send(None, others[first : first + MOST_DESCRIPTORS])
        except ConnectionError:  # it has ended, as it will be told
            pass
        finally:
            os.close(me)

    def _ask_zygote(self, fds: Sequence[int]) -> _Zygote:
        """Has one fork a process that gets these descriptors: this pool's, the program's, or a new one."""
        global _zygote
        known = self._zygote, _zygote  # of which one may end when the lock is free again
        with _lock:
            for zygote in known:
                if zygote is not None and zygote.suits(self._surroundings, self._modules):
                    with contextlib.suppress(ConnectionError):
                        zygote.ask(self._modules, fds)
                        self._zygote = zygote
                        return zygote
            _zygote = self._zygote = _Zygote(self._surroundings)
            _zygote.ask(self._modules, fds)
            return _zygote

    def _give_up_zygote(self) -> None:
        """Others are started by another one; those that this one has started go on."""
        global _zygote
        _zygote = None if _zygote is self._zygote else _zygote
        self._zygote = None

    def close(self) -> None:
        """Starts no more workers; those that there are go on."""
        fds, self._fds = self._fds, []
        self._zygote = None
        for fd in fds:
            os.close(fd)


class _Surroundings(NamedTuple):
    """What imports may depend on."""

    preloaded: list[str]  # for all
    threads: dict[str, str]  # that libraries start as they are loaded
    packages: list[str]  # that lie where installed ones do
    path: list[str]
    environment: dict[str, str]

    @classmethod
    def of_now(cls) -> _Surroundings:
        # Pytest sets one for each test, which no import reads.
        lasting = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        threads = {name: os.environ.get(name, one) for name, one in ONE_THREAD.items()}
        return cls(needed_by_all(), threads, known_packages(), folders(), lasting)

    def matters(self, others: _Surroundings, modules: Collection[str]) -> bool:
        """Whether anything is different that these modules, or those for all, may depend on."""
        return self[:2] != others[:2] or (bool(modules) and self != others)


class _Zygote:
    """The process that workers are forked from. It ends when nobody keeps it."""

    def __init__(self, surroundings: _Surroundings) -> None:
        self._surroundings = surroundings
        self._modules: set[str] = set()  # that it was asked to import
        _left[:] = [process for process in _left if process.poll() is None]
        self.process: subprocess.Popen[bytes] | None = None
        self.line, theirs = Line.pair()
        _zygotes.add(self)
        blocked = list(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
        setup = surroundings.path, surroundings.preloaded, blocked
        memory = memory_with(json.dumps(setup).encode())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, FOR_ALL)  # until it holds them
            self.process = subprocess.Popen(
                [
                    _python(),
                    "-P",  # what lies in the current folder may have the names of standard modules
                    *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                    "-c",
                    _BOOT,
                    str(theirs.fileno()),
                    str(memory),
                ],
                pass_fds=[theirs.fileno(), memory],
                stdin=subprocess.DEVNULL,
                env=ONE_THREAD | surroundings.environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(memory)
            theirs.close()

    def suits(self, surroundings: _Surroundings, modules: Sequence[str]) -> bool:
        """Whether a worker that is forked from it has nothing that it would import otherwise."""
        matters = surroundings.matters(self._surroundings, [*modules, *self._modules])
        return not matters and not self.line.is_left()

    def ask(self, modules: Sequence[str], fds: Sequence[int]) -> None:
        """Has it import these and fork a process, which gets the descriptors."""
        self._modules.update(modules)
        self.line.send(modules, fds)

    def close(self) -> None:
        """Closes its line: it ends as soon as it has ended its workers, and what these have started."""
        self.line.close()
        if self.process is not None:
            _left.append(self.process)
            self.process = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


_lock = fork_aware_lock()
_zygote: _Zygote | None = None
_zygotes: weakref.WeakSet[_Zygote] = weakref.WeakSet()
_left: list[subprocess.Popen[bytes]] = []  # of zygotes that are about to end
_held: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def tell_of_waiting(line: Line, what: str) -> None:
    """Says on the terminal what is waited for, where that takes long."""
    if line.poll(TELLING_SECONDS):
        return
    with contextlib.suppress(Exception):  # programs put all kinds of objects there
        if sys.stderr.isatty():
            print(f"torchrl_pool: waiting for {what} …", file=sys.stderr, flush=True)


def _of_a_child() -> dict[str, Any]:
    """What multiprocessing prepares its children with; so a worker's parent is this process to it."""
    me = process.current_process()
    start_method = get_start_method(allow_none=True)
    return {
        "name": me.name,
        "authkey": bytes(me.authkey),
        "orig_dir": process.ORIGINAL_DIR,  # type: ignore[attr-defined]
        "log_to_stderr": util._log_to_stderr,  # type: ignore[attr-defined]
        **({"start_method": start_method} if start_method else {}),
        **({"log_level": util._logger.getEffectiveLevel()} if util._logger else {}),  # type: ignore[attr-defined]
    }


def occupy_standard_streams() -> None:
    """In a program that was started without some of them, no descriptor of a pool gets their numbers.

    What a worker, or a program that it starts, takes for its output would be written there.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _python() -> str:
    """The interpreter's program. Where Python is embedded, ``sys.executable`` may be another one, or empty.

    Raises:
        RuntimeError: there is none.
    """
    chosen = os.fsdecode(spawn.get_executable() or "")
    if chosen != sys.executable:  # by multiprocessing.set_executable
        return chosen
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefixes = dict.fromkeys([sys.prefix, sys.exec_prefix, sys.base_prefix])
    own = [os.path.join(prefix, "bin", name) for prefix in prefixes]
    for path in [chosen, *own]:
        if os.path.basename(path).startswith(("python", "pypy")) and os.access(path, os.X_OK):
            return path
    raise RuntimeError(
        f"worker processes need Python's program: sys.executable is {sys.executable!r}, and there is no "
        f"{own[0]}: call multiprocessing.set_executable(path of a {name}), or pass num_workers=0"
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _in_words(exit_code: str) -> str:
    """Empty: the zygote was killed, too."""
    if not exit_code:
        return "ended, with what had started it"
    if (number := -int(exit_code)) > 0:
        # Real-time signals have no names, but for the first and the last one.
        name = f" ({signal.Signals(number).name})" if number in list(signal.Signals) else ""
        return f"was killed by signal {number}{name}"
    return f"ended with exit code {exit_code}"


def _end_zygote() -> None:
    global _zygote
    for held in list(_held):
        held.channel.close()
    with _lock:
        for zygote in list(_zygotes):
            zygote.close()
        _zygote = None
    for left in _left:
        try:
            left.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:  # it hangs in an import
            left.kill()
            left.wait()
    _left.clear()


def _forget() -> None:
    """In a forked child: what was started is the parent's, whose end the other side must be able to see."""
    global _zygote
    for zygote in list(_zygotes):
        zygote.close()
    for left in _left:
        left.returncode = 0  # not this process's to wait for
    _left.clear()
    _zygote = None
    for held in list(_held):
        held.close()
    _held.clear()


atexit.register(_end_zygote)
os.register_at_fork(after_in_child=_forget)
