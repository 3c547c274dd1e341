"""How many instructions the hot path takes, which no noise on a machine changes, against a stored budget.

Where a change makes the path longer for a good reason, or a compiler is new, run
``python tests/repository/test_instruction_counts.py`` and commit the budget that it writes.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("instruction_budget.json")
TOLERANCE = 1.1
STEPS = 2000
PATHS = ("env", "visit", "call")  # each with what the one before it does: see tests/cpp/hot_path.cc


def build(folder):
    """The driver, optimized and without sanitizers, whatever the package was built with."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DTORCHRL_POOL_PYTHON=OFF", "-DTORCHRL_POOL_TESTS=ON"]
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *options], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "hot_path"], check=True)
    return folder / "kept" / "tests" / "cpp" / "hot_path"


def run(driver, path, *tool):
    """The driver's compiler, and how often the measured steps allocated memory."""
    command = [*tool, driver, path, str(STEPS)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    compiler, allocations = printed.splitlines()
    return compiler, int(allocations)


def instructions_per_step(driver, path):
    profile = driver.with_name(f"{path}.callgrind")
    run(
        driver,
        path,
        "valgrind",
        "--tool=callgrind",
        "--collect-atstart=no",
        "--toggle-collect=measured",
        f"--callgrind-out-file={profile}",
    )
    total = re.search(r"^(?:totals|summary): (\d+)", profile.read_text(), re.MULTILINE)
    return int(total[1]) / STEPS


def too_long(measured, budget):
    """The paths that take over a tenth more instructions than their budget allows."""
    return {path: count for path, count in measured.items() if count > TOLERANCE * budget[path]}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return build(tmp_path_factory.mktemp("hot_path"))


@pytest.mark.slow  # compiles for a minute
def test_steps_allocate_no_memory(driver):
    assert {path: run(driver, path)[1] for path in ("visit", "call")} == {"visit": 0, "call": 0}


@pytest.mark.slow  # compiles for a minute
@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind: CONTRIBUTING.md says how to get it")
def test_instructions_stay_within_their_budget(driver):
    compiler = run(driver, "env")[0]
    budgets = json.loads(BUDGET.read_text())
    if compiler not in budgets:
        pytest.skip(f"no budget for {compiler}: python {Path(__file__).name} measures one")
    measured = {path: instructions_per_step(driver, path) for path in PATHS}
    assert too_long(measured, budgets[compiler]) == {}, f"{measured}, budget: {budgets[compiler]}"


def test_a_tenth_more_is_too_much():
    assert too_long({"env": 109.0, "visit": 111.0}, {"env": 100, "visit": 100}) == {"visit": 111.0}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        known = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
        known[run(program, "env")[0]] = {path: round(instructions_per_step(program, path)) for path in PATHS}
        BUDGET.write_text(json.dumps(known, indent=2) + "\n")
    sys.exit()
