"""Lines between processes, for messages with descriptors."""

from __future__ import annotations

import array
import errno
import os
import pickle
import select
import socket
from collections.abc import Sequence
from typing import Any

#: What the kernel takes at once.
MOST_DESCRIPTORS = 252
_MOST_BYTES = 1 << 12
_IN_MEMORY = b"in memory"


class Line:
    """One end of a line.

    A message comes whole or not at all: an interrupt never cuts one in two. One that is long is sent as
    memory that holds it, so that nobody has to read while it is sent.

    Args:
        fd: a descriptor of the socket, which now belongs to the line.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    @classmethod
    def pair(cls) -> tuple[Line, Line]:
        """Both ends of a new one."""
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one, other = (cls(end.detach()) for end in ends)
        return one, other

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Sends what can be pickled, and copies of descriptors."""
        self.send_bytes(pickle.dumps(message), fds)

    def send_bytes(self, data: bytes, fds: Sequence[int] = (), seconds: float | None = None) -> None:
        """The same for what was pickled before.

        Raises:
            ConnectionError: the other end is closed.
            TimeoutError: there was no place for it within so many seconds: the other side does not read.
        """
        memory = memory_with(data) if len(data) > _MOST_BYTES else -1
        if memory >= 0:
            data, fds = _IN_MEMORY, [memory, *fds]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.settimeout(seconds)
            self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)  # some programs end by SIGPIPE
        finally:
            if memory >= 0:
                os.close(memory)

    def recv(self, seconds: float | None = None) -> Any:
        """The next message."""
        return self.receive(seconds)[0]

    def receive(self, seconds: float | None = None) -> tuple[Any, list[int]]:
        """The next message and its descriptors, which now belong to the caller."""
        data, fds = self._receive(seconds)
        return pickle.loads(data), fds

    def recv_bytes(self) -> bytes:
        """The next message, pickled.

        Raises:
            EOFError: the other end is closed.
            TimeoutError: nothing came within so many seconds.
        """
        return self._receive(None)[0]

    def _receive(self, seconds: float | None) -> tuple[bytes, list[int]]:
        self._socket.settimeout(seconds)  # whatever a program has set for its own sockets
        try:
            data, fds, flags, _ = socket.recv_fds(
                self._socket, _MOST_BYTES, MOST_DESCRIPTORS + 1, flags=socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            raise EOFError from None
        if flags & socket.MSG_CTRUNC:
            for fd in fds:
                os.close(fd)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not data:
            raise EOFError
        if data == _IN_MEMORY:
            with open(fds.pop(0), "rb") as memory:
                data = memory.read()
        return data, fds

    def poll(self, seconds: float | None = 0.0) -> bool:
        """Whether there is a message, or the other end is closed, within so many seconds."""
        return self.closed or is_ready(self.fileno(), select.POLLIN, seconds)

    def is_left(self) -> bool:
        """Whether the other end is closed."""
        return self.closed or is_ready(self.fileno(), 0, 0.0)

    @property
    def closed(self) -> bool:
        return self.fileno() < 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def is_ready(fd: int, event: int, seconds: float | None) -> bool:
    """Whether this happens to a descriptor, or it is of no more use, within so many seconds."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def tells_of_an_end(error: BaseException) -> bool:
    """Whether a line raises this when its other end, or it itself, is closed."""
    return isinstance(error, EOFError | ConnectionError) or type(error) is OSError


def memory_with(data: bytes) -> int:
    """A descriptor of memory that holds this."""
    fd = os.memfd_create("torchrl_pool", os.MFD_CLOEXEC)
    try:
        with open(fd, "r+b", closefd=False) as memory:
            memory.write(data)
            memory.seek(0)  # where the other side reads on
    except BaseException:
        os.close(fd)
        raise
    return fd
