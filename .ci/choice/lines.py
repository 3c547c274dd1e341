"""Notes which lines of the package's Python ran, in the file of ``trace.c``; Python 3.12 or newer.

Processes that a test starts import it by a ``.pth`` file in the environment.
"""

from __future__ import annotations

import mmap
import os
import sys
import zlib
from types import CodeType

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torchrl_pool")
PACKAGE = os.path.normpath(PACKAGE) + os.sep
PYTHON, PART, PARTS = 4 << 20, 2 << 20, 16
# As in trace.c.
LIBRARIES = (
    "_core",
    "classic",
    "toy_text",
    "box2d",
    "mujoco",
    "dm_control",
    "robotics",
    "atari",
    "minigrid",
    "mpe",
    "sisl",
)
TOOL = 4


def place_of(file: str, line: int) -> int:
    """Where the file has a line of the package; that two share a place is one in hundreds of thousands."""
    return zlib.crc32(f"{file}:{line}".encode()) % PYTHON


def install() -> None:
    """Notes each line once, until ``sys.monitoring.restart_events``."""
    monitoring = sys.monitoring
    with open(os.environ["TRACED_LINES"], "r+b") as file:
        places = mmap.mmap(file.fileno(), 0)

    def note(code: CodeType, line: int) -> object:
        places[place_of(code.co_filename.removeprefix(PACKAGE), line)] = 1
        return monitoring.DISABLE

    def begin(code: CodeType, _: int) -> object:
        if code.co_filename.startswith(PACKAGE):
            monitoring.set_local_events(TOOL, code, monitoring.events.LINE)
        return monitoring.DISABLE

    if monitoring.get_tool(TOOL):  # by a parent's environment, into a parent's file
        monitoring.free_tool_id(TOOL)
    monitoring.use_tool_id(TOOL, "choice")
    monitoring.register_callback(TOOL, monitoring.events.LINE, note)
    monitoring.register_callback(TOOL, monitoring.events.PY_START, begin)
    monitoring.set_events(TOOL, monitoring.events.PY_START)
    os.register_at_fork(after_in_child=monitoring.restart_events)


if "TRACED_LINES" in os.environ:
    install()
