"""Messages between processes, with descriptors."""

from __future__ import annotations

import array
import pickle
import socket
import struct
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

_HEADER = struct.Struct("=QI")  # bytes that follow, descriptors that come with them
MOST_DESCRIPTORS = 253
"""What the kernel takes at once."""


def send(line: socket.socket, message: Any, fds: Sequence[int] = ()) -> None:
    """Sends what can be pickled, and copies of descriptors; all in one system call where it is short."""
    body = pickle.dumps(message)
    data = _HEADER.pack(len(body), len(fds)) + body
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    if (sent := line.sendmsg([data], rights, socket.MSG_NOSIGNAL)) < len(data):
        line.sendall(data[sent:], socket.MSG_NOSIGNAL)


class Channel(Connection):
    """A connection over a socket that raises BrokenPipeError also in programs that SIGPIPE would end."""

    def _send(self, data: bytes) -> None:
        super()._send(data, _send_without_signal)  # type: ignore[misc]


def send_descriptors(line: socket.socket, fds: Sequence[int]) -> None:
    """However many."""
    for first in range(0, len(fds), MOST_DESCRIPTORS):
        send(line, None, fds[first : first + MOST_DESCRIPTORS])


def _send_without_signal(fd: int | None, data: bytes) -> int:
    if fd is None:  # closed meanwhile, by another thread
        raise OSError("handle is closed")
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)
    try:
        line.settimeout(None)  # whatever a program has set for its own sockets
        return line.send(data, socket.MSG_NOSIGNAL)
    finally:
        line.detach()


def receive(line: socket.socket) -> tuple[Any, list[int]]:
    """The next message, and its descriptors, which now belong to the caller.

    Raises:
        EOFError: the other side has closed, or has ended.
        TimeoutError: nothing came within the line's timeout.
    """
    try:
        header, fds, _, _ = socket.recv_fds(
            line, _HEADER.size, MOST_DESCRIPTORS, flags=socket.MSG_CMSG_CLOEXEC
        )
        header += _read(line, _HEADER.size - len(header))
        count, _ = _HEADER.unpack(header)
        return pickle.loads(_read(line, count)), fds
    except ConnectionResetError:
        raise EOFError from None


def receive_descriptors(line: socket.socket, count: int) -> list[int]:
    """So many, of the messages that follow."""
    received: list[int] = []
    while len(received) < count:
        received += receive(line)[1]
    return received


def _read(line: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = line.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
