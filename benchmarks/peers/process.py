"""A contender in a process of its own, which steps when it is told to."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Peer:
    """One of the scripts of this folder; ``start`` and ``wait`` apart, so that several can run at a time."""

    def __init__(self, python: str, script: str) -> None:
        self.process = subprocess.Popen(
            [python, str(Path(__file__).parent / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments: object) -> None:
        assert self.process.stdin is not None
        print(*arguments, file=self.process.stdin, flush=True)

    def wait(self) -> float:
        """What the script answers: seconds per call."""
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the peer's process ended; see its message above")
        return float(answer)
