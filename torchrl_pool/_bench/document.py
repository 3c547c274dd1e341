"""Results as JSON, with the machine, the versions and the date that they belong to."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torchrl_pool import _core

_PACKAGES = (
    "torchrl_pool",
    "torch",
    "torchrl",
    "tensordict",
    "numpy",
    "gymnasium",
    "mujoco",
    "ale-py",
)


def document(results: Any) -> dict[str, Any]:
    """The results and all that they depend on, ready for JSON (but for dataclasses)."""
    return {
        "script": _script(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
        "results": results,
    }


def save(path: Path | None, results: Any) -> None:
    """Writes ``document(results)``; with no path, does nothing."""
    if path is not None:
        path.write_text(json.dumps(document(results), indent=1, default=asdict) + "\n")


def machine() -> dict[str, Any]:
    """Processor, memory and system; and the load, which tells how many others wanted the processors."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": _core.available_cpus(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def machine_line() -> str:
    """The machine in a few words, for tables and charts."""
    facts = machine()
    return f"{facts['processor']}, {facts['usable_cpus']} processors, {facts['memory_gib']:.0f} GiB"


def _script() -> str:
    name = Path(sys.argv[0]).name
    return "python -m torchrl_pool bench" if name == "__main__.py" else name


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a peer that is not installed
            continue
    return found


def _first(path: str, key: str) -> str | None:
    """The value of the first line ``key: value`` of a file of the system."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)
