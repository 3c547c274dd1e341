"""Waiting for what other processes do."""

import os
import signal
import time
from pathlib import Path


def eventually(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def parent_of(pid):
    """None where there is no such process, or only what is left of one that has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(parent) if state != "Z" else None


def killed(pid, by=signal.SIGKILL):
    """Returns once the process has ended: a worker may still answer a step before a signal reaches it."""
    os.kill(pid, by)
    eventually(lambda: parent_of(pid) is None)
