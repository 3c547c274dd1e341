"""Worker processes of a pool: started, watched, ended."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_start_method, process, resource_tracker, util
from typing import Any, TypeAlias

from torchrl_pool._workers.messages import Channel, receive, send, send_descriptors
from torchrl_pool._workers.pickling import Pickled, dump
from torchrl_pool._workers.zygote import ONE_THREAD, Ended, Launch, Setup

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


class WorkerProcess:
    """One worker.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that is readable once it has ended.
        channel: what it is talked to over.
    """

    def __init__(self, template: Template, pid: int, pidfd: int, channel: Channel) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.channel = channel
        self._template = template
        self._end = self._why_ended = ""
        _held.add(self)

    def kill(self) -> None:
        """Ends it at once, where it has not ended yet."""
        if self.pidfd >= 0:
            _kill(self.pidfd)

    @contextlib.contextmanager
    def whole_message(self) -> Iterator[None]:
        """Around what is sent or received over the channel.

        An interrupt in the midst of a message leaves the two ends out of step: then the worker is ended.

        Raises:
            EOFError: this has happened, or the worker has ended.
        """
        if self._why_ended:
            raise EOFError
        try:
            yield
        except BaseException as error:
            if tells_of_an_end(error) and self.wait(NOTICING_SECONDS):
                raise EOFError from error
            is_closed = isinstance(error, EOFError | BrokenPipeError | ConnectionResetError)  # by an env, say
            why = "its channel is closed" if is_closed else "an interrupt came in the midst of a message"
            self._why_ended = f"was ended, for {why}"
            self.kill()
            if is_closed:
                raise EOFError from error
            raise

    def wait(self, timeout: float) -> bool:
        """Whether it has ended within so many seconds."""
        return self.pidfd < 0 or _is_readable(self.pidfd, timeout)

    def can_be_sent(self, timeout: float) -> bool:
        """Whether its channel takes a short message within so many seconds."""
        return _is_ready(self.channel.fileno(), select.POLLOUT, timeout)

    def how_it_ended(self) -> str:
        """Such as ``"was killed by signal 9 (SIGKILL)"`` or ``"ended with exit code 3"``."""
        if not self._end:
            if not self.wait(0):
                return "is running"
            code = self._template._exit_code(self.pid)
            self._end = self._why_ended or _in_words(code)
        return self._end

    def _let_go(self) -> None:
        self.channel.close()

    def close(self) -> None:
        """Gives its descriptors back; the worker sees its channel closed."""
        self.channel.close()
        fd, self.pidfd = self.pidfd, -1
        if fd >= 0:
            os.close(fd)

    _forget = close


class Template:
    """The process that a pool's workers are forked from; what their envs are made by is loaded there, once.

    Any thread may launch workers.

    Args:
        factories: what makes the envs; lambdas too, and what ``__main__`` defines, where cloudpickle is
            installed.

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
        self._line, self._pidfd, kind = _start_template(pickled, unpickle=True)
        if kind == "threads":  # then each worker imports for itself
            self._line.close()
            os.close(self._pidfd)
            self._line, self._pidfd, _ = _start_template(pickled, unpickle=False)
        self._lock = threading.Lock()
        _held.add(self)

    def launch(self, target: str, *arguments: Any, fds: Sequence[int] = ()) -> WorkerProcess:
        """Starts a worker.

        Args:
            target: ``"module:function"``, imported in the worker, where it is called as
                ``function(factories, channel, fds, *arguments)``.
            arguments: what can be pickled.
            fds: descriptors of which the worker gets its own.

        Raises:
            RuntimeError: the template has ended, or no process can be started.
        """
        launch = Launch(target, next(process._process_counter))  # type: ignore[attr-defined]
        with _new_line(lambda theirs: self._ask(launch, [theirs, *fds])) as line:
            pid, (pidfd,) = _answer(line, ANSWERING_SECONDS)
            try:
                channel = Channel(os.dup(line.fileno()))
            except BaseException:
                os.close(pidfd)
                raise
            worker = WorkerProcess(self, pid, pidfd, channel)
        try:
            os.set_blocking(worker.channel.fileno(), True)
            worker.channel.send(arguments)
        except ConnectionError:
            pass  # it has ended already, as its descriptor tells
        except BaseException:
            worker.close()
            raise
        return worker

    def has_ended(self) -> bool:
        """Whether somebody else has ended it."""
        return self._pidfd >= 0 and _is_readable(self._pidfd, NOTICING_SECONDS)

    def close(self) -> None:
        """Ends the template, which its workers do not outlive."""
        self._line.close()
        has_ended = False
        try:
            has_ended = self._pidfd < 0 or _is_readable(self._pidfd, ENDING_SECONDS)
        finally:  # an interrupt does not leave it there
            if not has_ended:
                _kill(self._pidfd)
            self._forget()

    def _let_go(self) -> None:
        self._line.close()

    def _forget(self) -> None:
        self._line.close()
        fd, self._pidfd = self._pidfd, -1
        if fd >= 0:
            os.close(fd)

    def _ask(self, question: Any, fds: Sequence[int]) -> None:
        with self._lock:
            if self._line.fileno() < 0:
                raise RuntimeError(
                    "The process that starts workers is closed, or belongs to another process."
                )
            try:
                send(self._line, question, fds)
            except OSError as error:
                raise _gone() from error

    def _exit_code(self, pid: int) -> int | None:
        """None where nobody knows."""
        try:
            with _new_line(lambda theirs: self._ask(Ended(pid), [theirs])) as line:
                exit_code: int | None = _answer(line, ANSWERING_SECONDS)[0]
        except RuntimeError:
            return None
        return exit_code


class _Zygote:
    """The process that templates are forked from."""

    def __init__(self) -> None:
        self.line, theirs = _socketpair()
        with theirs:
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


_lock = threading.Lock()
_zygote: _Zygote | None = None
_held: weakref.WeakSet[Template | WorkerProcess] = weakref.WeakSet()


def _ask_zygote(fds: Sequence[int]) -> None:
    """Has a template forked, which gets these descriptors."""
    global _zygote
    with _lock:
        if _zygote is not None:
            with contextlib.suppress(OSError):
                if _zygote.process.poll() is None:
                    return send(_zygote.line, None, fds)
            _zygote.close()
        _zygote = _Zygote()
        send(_zygote.line, None, fds)


def _start_template(factories: Pickled, unpickle: bool) -> tuple[socket.socket, int, str]:
    """Its line, its descriptor, and what became of the factories."""
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
    with _outputs() as outputs, contextlib.ExitStack() as undo:
        me = os.pidfd_open(os.getpid())
        undo.callback(os.close, me)
        line = undo.enter_context(_new_line(lambda theirs: _ask_zygote([theirs, *outputs])))
        _, (pidfd,) = _answer(line, ANSWERING_SECONDS)
        undo.callback(os.close, pidfd)
        undo.callback(_kill, pidfd)
        try:
            send(line, setup, [tracker, me])
            send_descriptors(line, factories.fds)
        except OSError as error:
            raise _gone() from error
        answer, _ = _answer(line, UNPICKLING_SECONDS, "while it unpickled the factories")
        if answer.traceback:
            kind = ImportError if answer.kind == "ImportError" else RuntimeError
            what = "The callable that makes the envs cannot be loaded in a worker process."
            raise kind(f"{what}\n\n{answer.traceback}")
        undo.pop_all()
        os.close(me)
        return line, pidfd, answer.kind


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


def _new_line(give: Callable[[int], None]) -> socket.socket:
    """One end of a line, after the other end was given away."""
    ours, theirs = _socketpair()
    try:
        with theirs:
            give(theirs.fileno())
    except BaseException:
        ours.close()
        raise
    return ours


def _socketpair() -> tuple[socket.socket, socket.socket]:
    """Both wait as long as it takes, whatever a program has set for its own sockets."""
    pair = socket.socketpair()
    for line in pair:
        line.settimeout(None)
    return pair


def _answer(line: socket.socket, seconds: float, doing: str = "") -> tuple[Any, list[int]]:
    line.settimeout(seconds)
    try:
        message, fds = receive(line)
    except EOFError:
        raise _gone(doing) from None
    except TimeoutError:
        raise RuntimeError(f"A process that starts workers did not answer within {seconds:g} s.") from None
    if isinstance(message, str):
        raise RuntimeError(f"No process could be started: {message}")
    return message, fds


def _gone(doing: str = "") -> RuntimeError:
    return RuntimeError(f"A process that starts workers has ended{doing and f' {doing}'}.")


def tells_of_an_end(error: BaseException) -> bool:
    """Whether a connection raises this when its other end, or it itself, is closed."""
    return isinstance(error, EOFError | ConnectionError) or type(error) is OSError


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


@contextlib.contextmanager
def _outputs() -> Iterator[list[int]]:
    """Descriptors of stdout and stderr as they are now."""
    with open(os.devnull, "wb") as null:
        yield [fd if _is_open(fd) else null.fileno() for fd in (1, 2)]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _is_readable(fd: int, seconds: float) -> bool:
    return _is_ready(fd, select.POLLIN, seconds)


def _is_ready(fd: int, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(seconds * 1000))


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended, with all that was forked from the same process"
    if exit_code < 0:
        return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    return f"ended with exit code {exit_code}"


def _end_zygote() -> None:
    global _zygote
    for held in list(_held):
        held._let_go()
    with _lock:
        if _zygote is not None:
            _zygote.close()
        _zygote = None


def _forget() -> None:
    """In a forked child: what was started is the parent's, whose end the other side must be able to see."""
    global _lock, _zygote
    _lock = threading.Lock()
    if _zygote is not None:
        _zygote.line.close()
        _zygote.process.returncode = 0  # not this process's to wait for
        _zygote = None
    for held in list(_held):
        held._forget()
    _held.clear()


atexit.register(_end_zygote)
os.register_at_fork(after_in_child=_forget)
