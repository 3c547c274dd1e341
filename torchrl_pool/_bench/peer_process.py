"""Peers that need a process of their own, driven through pipes.

A peer reads a line per request and answers it with one line when it has done what the line says.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class PeerProcess:
    """``start`` and ``wait`` apart, so that several can run at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, *words: object) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def wait(self) -> str:
        """The answer to the request that was started first."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the peer's process ended; see its message above")
        return answer

    def request(self, *words: object) -> str:
        self.start(*words)
        return self.wait()

    def close(self) -> None:
        # The end of its input does not reach it while forked processes of other peers hold the pipe too.
        self._process.terminate()
        self._process.communicate()
