"""Programs that start workers, and what becomes of their processes and descriptors."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

FOLDER = Path(__file__).parent


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


def open_files():
    """How many descriptors are open, and none of them for what other tests have left to be collected."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def run(program, *arguments):
    """A program that prints the ids of processes that it leaves behind: they must end."""
    lines = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(lines, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
