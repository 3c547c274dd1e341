"""Programs that start workers, and what becomes of their processes and descriptors."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from waiting import eventually, killed, parent_of  # noqa: F401

FOLDER = Path(__file__).parent


def open_files():
    """How many descriptors are open, and none of them for what other tests have left to be collected."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def run(program, *arguments):
    """A program that prints the ids of processes that it leaves behind: they must end."""
    lines = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(lines, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
