"""Peers that need a process of their own, driven through pipes.

A peer reads a line per request and answers it with one line when it has done what the line says.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


class PeerProcess:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def request(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        if not self._process.stdout.readline():
            raise RuntimeError("the peer's process ended; see its message above")


def envpool(python: str) -> PeerProcess:
    """EnvPool's ``step``: requests are ``task num_envs num_threads calls``."""
    return PeerProcess([python, str(PEERS / "envpool_step.py")])
