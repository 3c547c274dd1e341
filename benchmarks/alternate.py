"""Measures contenders side by side on a noisy machine: alternating, many short rounds, median and spread."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seconds:
    """Seconds per call: the median over rounds and the quartiles around it."""

    median: float
    low: float
    high: float


def alternate(
    contenders: Mapping[str, Callable[[int], None]],
    round_seconds: float = 0.05,
    rounds: int = 30,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Seconds]:
    """Times contenders in turn.

    Args:
        contenders: by name, a function that makes as many calls as it is told.
        round_seconds: about how long one contender runs before the next has its turn.
        rounds: turns of each.
        clock: ``time.thread_time`` for what one thread does, where others want the processor too.
    """
    calls = {}
    for name, run in contenders.items():
        run(50)  # warm-up
        start = time.perf_counter()
        run(50)
        calls[name] = max(1, int(round_seconds / ((time.perf_counter() - start) / 50)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run(calls[name])
            samples[name].append((clock() - start) / calls[name])
    return {name: _summary(values) for name, values in samples.items()}


def _summary(values: list[float]) -> Seconds:
    low, median, high = statistics.quantiles(values, n=4)
    return Seconds(median, low, high)


def save(path: Path | None, results: Any) -> None:
    """Writes results as JSON, with the machine and the versions that they belong to."""
    if path is None:
        return
    document = {
        "script": Path(sys.argv[0]).name,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"processor": _processor(), "cpus": os.cpu_count(), "system": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torchrl_pool", "torch", "torchrl", "tensordict", "numpy")},
        },
        "results": results,
    }
    path.write_text(json.dumps(document, indent=2, default=asdict) + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
