"""Environments that have the package with one of its extras, and what these require: nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

CHECKOUT = Path(__file__).parent.parent


def linked_environment(folder: Path, extra: str) -> tuple[Path, set[str]]:
    """A new environment whose packages are links to those that run the tests.

    Returns:
        Its interpreter, and the names of required packages that are not installed here.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    found, missing = _required(extra)
    for package in found:
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site / name).exists():  # several packages may share a folder
                (site / name).symlink_to(Path(str(package.locate_file(name))).resolve())
    return folder / "bin" / "python", missing


def installed_environment(folder: Path, extra: str, wheels: Path) -> Path:
    """A new environment where pip installed the package from a folder of wheels; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    package = f"torchrl_pool[{extra}]" if extra else "torchrl_pool"
    pip = (python, "-m", "pip", "install", "-q", "-c", CHECKOUT / "constraints.txt", "--find-links", wheels)
    run(*pip, package, cwd=folder)
    return python


def run(*command: object, cwd: Path, status: int = 0) -> str:
    """What a command prints in its own environment, without the settings of the one that runs the tests."""
    settings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    settings["PATH"] = os.pathsep.join([str(Path(str(command[0])).parent), settings["PATH"]])
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def _required(extra: str) -> tuple[list[Distribution], set[str]]:
    """All that an extra brings with it, and what of it is not installed."""
    found: dict[str, Distribution] = {}
    missing: set[str] = set()
    seen: set[tuple[str, str]] = set()
    queue = [("torchrl-pool", extra)]
    while queue:
        name, wanted = queue.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                required = re.sub(r"[-_.]+", "-", requirement.name).lower()
                queue += [(required, further) for further in ("", *requirement.extras)]
    return list(found.values()), missing
