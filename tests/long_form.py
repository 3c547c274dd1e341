"""What the default run of the tests leaves to their long form: it is marked ``slow``.

The default run answers one question: is this checkout sound? Its tests were chosen by measurement: by what
each one costs, and by the lines of Python and C++ that it reaches. ``.ci/choice/choose.py`` wrote
``default_run.txt``. A function that is named there runs the cases that stand behind its name, or none; any
other runs whole, as a new one does, until the choice is made again.

``TORCHRL_POOL_LONG_TESTS=1`` runs all, over more steps and from more seeds (``LONG``); ``-m slow`` runs what
the default run leaves out, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

LONG = bool(os.environ.get("TORCHRL_POOL_LONG_TESTS"))
FILE = Path(__file__).with_name("default_run.txt")


def read_choice(text: str) -> tuple[int, dict[str, set[str]]]:
    """How many tests the default run may have, and the cases of each function that does not run whole."""
    allowed, cases = 0, {}
    for line in text.splitlines():
        if line.startswith("at most "):
            allowed = int(line.split()[2])
        elif line and not line.startswith("#"):
            function, *chosen = line.split("\t")
            cases[function] = set(chosen)
    return allowed, cases


ALLOWED, CASES = read_choice(FILE.read_text())


def function_and_case(item: pytest.Item) -> tuple[str, str]:
    """``folder/file.py::test_name`` below ``tests``, and what stands in brackets behind it."""
    function, _, case = item.nodeid.removeprefix("tests/").partition("[")
    return function, case.removesuffix("]")


def mark_slow(items: Iterable[pytest.Item], cases: Mapping[str, set[str]] = CASES) -> None:
    """Marks what the default run leaves out."""
    for item in items:
        function, case = function_and_case(item)
        if case not in cases.get(function, {case}):
            item.add_marker("slow")
