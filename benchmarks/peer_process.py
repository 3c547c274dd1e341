"""Peers that need a process of their own, driven through pipes.

A peer reads a line per request and answers it with one line when it has done what the line says.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


class PeerProcess:
    """``start`` and ``wait`` apart, so that several can run at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, *words: object) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def wait(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the peer's process ended; see its message above")

    def request(self, *words: object) -> None:
        self.start(*words)
        self.wait()


def envpool(python: str) -> PeerProcess:
    """EnvPool's ``step``: requests are ``task num_envs num_threads calls``."""
    return PeerProcess([python, str(PEERS / "envpool_step.py")])


def bare_ale() -> PeerProcess:
    """The emulator of ale-py's wheel: requests are ``game steps``."""
    return PeerProcess([sys.executable, str(PEERS / "bare_ale.py")])
