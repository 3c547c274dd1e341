#!/usr/bin/env python3
"""Runs the default tests beside releases of others, each set in an environment of its own; prints a table.

    .ci/matrix.py                          all sets
    .ci/matrix.py nightly oldest           these
    .ci/matrix.py --tests env collecting   fewer tests

The wheel is built once for each Python. Packages that a set does not name come in their newest releases. What
TorchRL and tensordict ask of each other is not looked at: whether they work together is the question.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
EXTRAS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PINS = (CHECKOUT / "constraints.txt").read_text().split()
# What the tests need, and what TorchRL and tensordict do, in any release; simulators in those whose numbers
# the pool gives.
COMMON = [
    *EXTRAS["test"],
    *(pin for pin in PINS if pin.startswith(("ale-py==", "mujoco=="))),
    *("packaging", "cloudpickle", "orjson", "pyvers", "hoptorch", "importlib_metadata", "pyyaml"),
]


@dataclass(frozen=True)
class Set:
    """Releases to test beside; ``torch`` and ``numpy`` with what they need, the others as they are."""

    base: str  # what pip resolves
    alone: str  # TorchRL and tensordict
    python: str = "python3.11"


SETS = {
    "tested": Set("torch==2.13.0 numpy==2.4.6", "torchrl==0.14.1 tensordict==0.14.3"),
    "oldest": Set("torch==2.9.1 numpy==2.0.2", "torchrl==0.14.1 tensordict==0.14.3"),
    "tensordict-0.15": Set("torch==2.13.0 numpy", "torchrl==0.14.1 tensordict==0.15.3"),
    "nightly": Set("torch==2.13.0 numpy", "torchrl-nightly tensordict-nightly"),
    "python-3.12": Set("torch numpy", "torchrl==0.14.1 tensordict==0.14.3", "python3.12"),
    "python-3.13": Set("torch numpy", "torchrl==0.14.1 tensordict==0.14.3", "python3.13"),
    "python-3.14": Set("torch numpy", "torchrl==0.14.1 tensordict==0.14.3", "python3.14"),
}


def run(*command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command, whose output is not shown; where it must not fail, it ends the program."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=CHECKOUT / "tests",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}")
    return done


def wheel_for(python: Path, folder: Path) -> Path:
    """A wheel of this checkout, built unless it is there."""
    tag = run(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])").stdout.strip()
    if not (found := list(folder.glob(f"*-{tag}-*.whl"))):
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, CHECKOUT)
        found = list(folder.glob(f"*-{tag}-*.whl"))
    return found[0]


def test_beside(which: Set, folder: Path, wheels: Path, tests: list[str]) -> tuple[str, str, str]:
    """What is installed, how many tests ran, how they ended."""
    python = folder / "bin" / "python"
    if not python.exists():
        run(which.python, "-m", "venv", folder)
    pip = (python, "-m", "pip", "install", "-q")
    run(*pip, *which.base.split(), *COMMON)
    run(*pip, "--no-deps", *which.alone.split())
    run(*pip, "--no-deps", "--force-reinstall", wheel_for(python, wheels))
    names = [re.split("==", name)[0] for name in (which.base + " " + which.alone).split()]
    program = "import sys; from importlib.metadata import version; print(sys.version.split()[0], "
    program += "*(name + '=' + version(name) for name in sys.argv[1:]))"
    versions = run(python, "-c", program, *names).stdout.strip()
    done = run(folder / "bin" / "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *tests, check=False)
    (folder / "tests.txt").write_text(done.stdout)
    lines = done.stdout.splitlines()
    failed = [line.partition(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        failed = [f"pytest exits with {done.returncode}"]
    return f"Python {versions}", lines[-1].strip("= "), "; ".join(failed) or "-"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "build" / "matrix", help="for environments")
    parser.add_argument("--tests", nargs="+", default=["."], help="files or folders of tests")
    parsed = parser.parse_args()
    if unknown := [name for name in parsed.sets if name not in SETS]:
        parser.error(f"expected some of {', '.join(SETS)}, got {', '.join(unknown)}")
    os.environ.pop("PYTHONPATH", None)
    rows, all_passed = [], True
    for name in parsed.sets or SETS:
        start = time.perf_counter()
        try:
            row = test_beside(SETS[name], parsed.folder / name, parsed.folder / "wheels", parsed.tests)
        except (RuntimeError, OSError) as error:
            row = (f"{SETS[name]}", "not installed", str(error).strip().splitlines()[-1])
        all_passed &= row[2] == "-"
        rows.append(row)
        print(f"{name}: {' | '.join(row)} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    print("| installed | tests | failed |\n|---|---|---|")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
