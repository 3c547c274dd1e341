"""A short version of ``benchmarks/soak.py``, in a process of its own."""

from pathlib import Path

import pytest
from processes import printed

PROGRAM = """
from soak import soak
result = soak("CartPole-v1", 16, 20, 100_000)
before, after = result["before"], result["after"]
assert result["cycles"] > 250, result
assert (before["threads"], before["files"]) == (after["threads"], after["files"]), result
assert after["memory"] < before["memory"] + 20_000, result  # KiB; what malloc keeps varies
"""


@pytest.mark.slow  # runs for seconds
def test_nothing_piles_up():
    folder = Path(__file__).parents[2] / "benchmarks"
    printed(PROGRAM, cwd=folder, timeout=300)
