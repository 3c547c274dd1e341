"""The envs as their sources are now, with each use of a row compared with the specs."""

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "cpp" / "docking.cc"
CODE = f"""
from torchrl_pool import build_plugin
from torchrl_pool.testing import check_plugin
for task in build_plugin({str(SOURCE)!r}, checked=True):
    check_plugin(task)
"""


def test_uses_its_rows_as_declared() -> None:
    # In a process of its own: in this one the installed library brings the same tasks.
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
