"""Worker processes of a pool: started, watched, ended."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import get_start_method, process, resource_tracker, util
from typing import Any, TypeAlias

from torchrl_pool._fork_aware_lock import fork_aware_lock
from torchrl_pool._workers.lines import MOST_DESCRIPTORS, Line, is_ready
from torchrl_pool._workers.pickling import Pickled, dump
from torchrl_pool._workers.zygote import ONE_THREAD, Launch, Setup

Factories: TypeAlias = "Sequence[Callable[[], Any]] | Callable[[], Any]"

#: Seconds within which factories must have been unpickled, with all that they import.
UNPICKLING_SECONDS = 600.0
#: Seconds within which a process that has nothing else to do must answer.
ANSWERING_SECONDS = 60.0
#: Seconds that a process has to end by itself, before it is killed.
ENDING_SECONDS = 5.0
#: Seconds between the end of a process's line and its own, at most.
NOTICING_SECONDS = 1.0

_BOOT = """
import signal; signal.signal(signal.SIGINT, lambda *_: None)
import json, sys; sys.path[:] = json.loads(sys.argv[2])
from torchrl_pool._workers.zygote import serve; serve(int(sys.argv[1]))
"""


class ChildProcess:
    """A process that was forked for this one by another.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that is readable once it has ended.
        channel: what it is talked to over.
    """

    def __init__(self, pid: int, pidfd: int, channel: Line, status: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.channel = channel
        self._status = status  # where its guard writes its exit code
        self._end = ""
        _held.add(self)

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
        for fd in fds:
            if fd >= 0:
                os.close(fd)


class Template:
    """The process that a pool's workers are forked from; what their envs are made by is loaded there, once.

    Any thread may launch workers.

    Args:
        factories: what makes the envs; lambdas too, and what ``__main__`` defines.

    Attributes:
        names: what the workers' ``__main__`` has of this one's.

    Raises:
        TypeError: the factories cannot be pickled.
        ImportError: they import what is not there; the message holds the traceback.
        RuntimeError: they cannot be unpickled for another reason, or no process can be started.
    """

    def __init__(self, factories: Factories) -> None:
        pickled = dump(factories)
        self.names = pickled.names
        self._process, kind = _start_template(pickled, unpickle=True)
        if kind == "threads":  # then each worker imports for itself
            self._process.close()
            self._process, _ = _start_template(pickled, unpickle=False)

    def launch(self, target: str, *arguments: Any, fds: Sequence[int] = ()) -> ChildProcess:
        """Starts a worker.

        Args:
            target: ``"module:function"``, imported in the worker, where it is called as
                ``function(factories, channel, fds, *arguments)``.
            arguments: what can be pickled.
            fds: descriptors of which the worker gets its own.

        Raises:
            RuntimeError: the template has ended, or no process can be started.
        """
        if self._process.channel.closed:
            raise RuntimeError("The process that starts workers is closed, or belongs to another process.")
        launch = Launch(target, arguments, next(process._process_counter))  # type: ignore[attr-defined]

        def ask(own: list[int]) -> None:
            try:
                self._process.channel.send(launch, [*own, *fds])
            except ConnectionError as error:
                raise _gone() from error

        return _started(ask)

    def has_ended(self) -> bool:
        """Whether somebody else has ended it."""
        return self._process.pidfd >= 0 and self._process.wait(NOTICING_SECONDS)

    def close(self) -> None:
        """Ends the template, which its workers do not outlive."""
        self._process.channel.close()
        try:
            if not self._process.wait(ENDING_SECONDS):
                self._process.kill()
        except BaseException:  # an interrupt does not leave it there
            self._process.kill()
            raise
        finally:
            self._process.close()


class _Zygote:
    """The process that templates are forked from."""

    def __init__(self) -> None:
        self.line, theirs = Line.pair()
        with contextlib.closing(theirs):
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",  # what lies in the current folder may have the names of standard modules
                    *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                    "-c",
                    _BOOT,
                    str(theirs.fileno()),
                    json.dumps([str(folder) for folder in sys.path]),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | ONE_THREAD,
            )

    def close(self) -> None:
        self.line.close()
        try:
            self.process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_lock = fork_aware_lock()
_zygote: _Zygote | None = None
_held: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _ask_zygote(fds: Sequence[int]) -> None:
    """Has a template forked, which gets these descriptors."""
    global _zygote
    with _lock:
        if _zygote is not None:
            with contextlib.suppress(OSError):
                if _zygote.process.poll() is None:
                    return _zygote.line.send(None, fds)
            _zygote.close()
        _zygote = _Zygote()
        _zygote.line.send(None, fds)


def _start_template(factories: Pickled, unpickle: bool) -> tuple[ChildProcess, str]:
    """The process, and what became of the factories."""
    _occupy_standard_streams()
    setup = Setup(
        path=list(map(str, sys.path)),
        arguments=sys.argv,
        folder=_folder(),
        processors=os.sched_getaffinity(os.getpid()),  # the main thread's; others may be pinned
        environment=dict(os.environ),
        child=_of_a_child(),
        identity=process.current_process()._identity,
        pid=os.getpid(),
        factories=factories.data,
        num_descriptors=len(factories.fds),
        unpickle=unpickle,
    )
    tracker = resource_tracker.getfd()  # what keeps account of shared memory is one for all
    assert tracker is not None
    with contextlib.ExitStack() as undo:
        me = os.pidfd_open(os.getpid())
        undo.callback(os.close, me)
        template = _started(lambda own: _ask_zygote([*own, 1, 2]))
        undo.callback(template.close)
        undo.callback(template.kill)
        try:
            template.channel.send(setup, [tracker, me])
            for first in range(0, len(factories.fds), MOST_DESCRIPTORS):
                template.channel.send(None, factories.fds[first : first + MOST_DESCRIPTORS])
        except ConnectionError as error:
            raise _gone() from error
        answer, _ = _answer(template.channel, UNPICKLING_SECONDS, "while it unpickled the factories")
        if answer.traceback:
            kind = ImportError if answer.kind == "ImportError" else RuntimeError
            what = "The callable that makes the envs cannot be loaded in a worker process."
            raise kind(f"{what}\n\n{answer.traceback}")
        undo.pop_all()
        os.close(me)
        return template, answer.kind


def _started(ask: Callable[[list[int]], None]) -> ChildProcess:
    """The process that another one forks when it is asked to.

    Args:
        ask: has another process do so; given the descriptors that are to be sent along.
    """
    channel, theirs = Line.pair()
    status, writing = os.pipe()
    with contextlib.ExitStack() as undo:
        undo.callback(channel.close)
        undo.callback(os.close, status)
        try:
            ask([theirs.fileno(), writing])
        finally:
            theirs.close()
            os.close(writing)
        try:
            pid, (pidfd,) = channel.receive(ANSWERING_SECONDS)
        except TimeoutError:
            raise _late() from None
        except EOFError:
            reason = os.read(status, 1000).decode(errors="replace")
            if not reason or reason.lstrip("-").isdigit():  # its exit code
                raise _gone() from None
            raise RuntimeError(f"No process could be started: {reason}") from None
        undo.pop_all()
        return ChildProcess(pid, pidfd, channel, status)


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


def _answer(line: Line, seconds: float, doing: str) -> tuple[Any, list[int]]:
    try:
        return line.receive(seconds)
    except EOFError:
        raise _gone(doing) from None
    except TimeoutError:
        raise _late() from None


def _late() -> RuntimeError:
    return RuntimeError("A process that starts workers did not answer in time.")


def _gone(doing: str = "") -> RuntimeError:
    return RuntimeError(f"A process that starts workers has ended{doing and f' {doing}'}.")


def _occupy_standard_streams() -> None:
    """In a program that was started without some of them, no line between processes gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _in_words(exit_code: str) -> str:
    """Empty: the guard was killed, too."""
    if not exit_code:
        return "ended, with what had started it"
    if int(exit_code) < 0:
        return f"was killed by signal {-int(exit_code)} ({signal.Signals(-int(exit_code)).name})"
    return f"ended with exit code {exit_code}"


def _end_zygote() -> None:
    global _zygote
    for held in list(_held):
        held.channel.close()
    with _lock:
        if _zygote is not None:
            _zygote.close()
        _zygote = None


def _forget() -> None:
    """In a forked child: what was started is the parent's, whose end the other side must be able to see."""
    global _zygote
    if _zygote is not None:
        _zygote.line.close()
        _zygote.process.returncode = 0  # not this process's to wait for
        _zygote = None
    for held in list(_held):
        held.close()
    _held.clear()


atexit.register(_end_zygote)
os.register_at_fork(after_in_child=_forget)
