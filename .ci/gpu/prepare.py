#!/usr/bin/env python3.12
"""Fills the ignored folder ``.device`` with what ``check.py`` beside this needs where nothing can be fetched.

    python3.12 .ci/gpu/prepare.py

These are wheels: of this checkout, and of what it needs and such a machine lacks (torch, NumPy, SciPy,
matplotlib, tqdm and pytest with its plugins are there). They are for the Python that runs this, and for a
system like this one or newer. To be run again after each change of the package.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".device"
MISSING = (
    *("torchrl", "tensordict", "hoptorch", "pyvers", "orjson", "importlib_metadata", "lazy-importer"),
    *("gymnasium", "farama-notifications", "ale-py", "tyro", "docstring_parser", "typeguard"),
)
MOST = 60  # MiB that travel


def sources() -> str:
    """A checksum of what a wheel is made of."""
    files = [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml"]
    for folder in ("cpp", "torchrl_pool"):
        files += (file for file in (ROOT / folder).rglob("*") if file.is_file() and file.suffix != ".so")
    digest = hashlib.sha256()
    for file in sorted(file for file in files if "__pycache__" not in file.parts):
        digest.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    folder = WHEELS / sources()
    if not folder.exists():
        shutil.rmtree(WHEELS, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps")
        pins = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}  # of the build's tools, too
        subprocess.run([*pip, "-w", WHEELS / "new", ".", *MISSING], cwd=ROOT, env=pins, check=True)
        (WHEELS / "new").rename(folder)
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]
    size = sum(file.stat().st_size for file in [*folder.iterdir(), *map(ROOT.joinpath, tracked)]) / 2**20
    print(f"{size:.1f} MiB travel: what git tracks, and {folder.relative_to(ROOT)}")
    if size > MOST:
        sys.exit(f"expected at most {MOST} MiB")


if __name__ == "__main__":
    main()
