"""Steps per second by number of envs and threads, beside the same C++ envs alone and other libraries.

Actions are random. All contenders take turns in one run, so that their ratios hold on a noisy machine too.
README and docs show the saved results, by ``.ci/speed_tables.py``. EnvPool's paper (Weng et al. 2022) has the
same in figure 3, and for one env in table 2. The other benchmarks measure with ``alternate`` and write with
``save``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from contenders import CONTENDERS, POOL, Case, make_all

from torchrl_pool import _core
from torchrl_pool._tables import print_table

TASKS = ["CartPole-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5", "ALE/Breakout-v5"]
PACKAGES = (
    *("torchrl_pool", "torch", "torchrl", "tensordict", "numpy", "gymnasium"),
    *("mujoco", "ale-py", "mpe2", "vmas"),
)


# ---- measuring


@dataclass(frozen=True)
class Seconds:
    """Seconds per call: the median over rounds and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


def summary(values: Sequence[float]) -> Seconds:
    """The median and the quartiles of at least two measurements."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Seconds(median, low, high)


def alternate(
    contenders: Mapping[str, Callable[[int], Any]], round_seconds: float = 0.05, rounds: int = 30
) -> dict[str, Seconds]:
    """Times contenders in turn, in many short rounds.

    Args:
        contenders: by name, a function that makes a given number of calls.
        round_seconds: about how long one contender runs before the next has its turn.
        rounds: turns of each; at least 2.
    """
    calls = {name: _calls_in(run, round_seconds) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            samples[name].append(_seconds_of(run, calls[name]) / calls[name])
    return {name: summary(values) for name, values in samples.items()}


def _seconds_of(run: Callable[[int], Any], calls: int) -> float:
    start = time.perf_counter()
    run(calls)
    return time.perf_counter() - start


def _calls_in(run: Callable[[int], Any], seconds: float) -> int:
    """How many calls take about so long. Finding out warms the contender up."""
    run(1)
    calls = 1
    while (elapsed := _seconds_of(run, calls)) < seconds / 2:
        calls *= 4
    return max(1, round(calls * seconds / elapsed))


def one_torch_thread() -> None:
    """The benchmarks measure envs, not torch's own thread pool."""
    torch.set_num_threads(1)


# ---- results


def save(path: Path | None, results: Any) -> None:
    """Writes the results and what they depend on, a line for each key, and for each of a list of results."""
    if path is None:
        return
    value = {
        "script": Path(sys.argv[0]).name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
        "results": results,
    }
    lines = []
    for key, item in value.items():
        text = json.dumps(item, default=asdict)
        if isinstance(item, list):
            text = "[\n  " + ",\n  ".join(json.dumps(row, default=asdict) for row in item) + "\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def machine() -> dict[str, Any]:
    """Processor, memory and system; and the load, which tells how many others wanted the processors."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processors = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": processors[0] if processors else platform.processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": _core.available_cpus(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def machine_line() -> str:
    """The machine in a few words, for tables."""
    facts = machine()
    return f"{facts['processor']}, {facts['usable_cpus']} processors, {facts['memory_gib']:.0f} GiB"


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # another library that is not installed
            continue
    return found


# ---- the program


def measure(case: Case, names: Sequence[str], rounds: int, round_seconds: float) -> dict[str, Any]:
    """Seconds per step of one env of the pool and of the named contenders, ready for JSON."""
    contenders, missing = make_all([POOL, *names], case)
    try:
        times = alternate({name: one.run for name, one in contenders.items()}, round_seconds, rounds)
    finally:
        for contender in contenders.values():
            contender.close()
    seconds = {
        name: Seconds(*(value / case.num_envs for value in asdict(of_call).values()))
        for name, of_call in times.items()
    }
    return {
        **asdict(case),
        "steps_per_second": {name: round(1 / s.median, 1) for name, s in seconds.items()},
        "pool_is_faster_by": {name: round(s.median / seconds[POOL].median, 3) for name, s in seconds.items()},
        "seconds_per_step": seconds,
        "missing": missing,
    }


def print_results(results: Sequence[Mapping[str, Any]]) -> None:
    """A row for each contender of each case, then what the names mean, and what was left out and why."""
    rows = []
    for row in results:
        first = [row["task"], str(row["num_envs"]), str(row["num_threads"])]
        for name, seconds in row["seconds_per_step"].items():
            faster = "" if name == POOL else f"{row['pool_is_faster_by'][name]:.3g}"
            rows.append([*first, name, f"{1 / seconds.median:,.0f}", f"±{seconds.spread:.0%}", faster])
            first = ["", "", ""]
    print(f"{machine_line()}\n")
    header = ["task", "envs", "threads", "", "steps/s", "spread", f"{POOL} is faster by"]
    print_table(header, rows, numbers=3)
    print("\nMedians over rounds in which all take turns; spread: half the distance between the quartiles.")
    for name in dict.fromkeys(name for row in results for name in row["seconds_per_step"]):
        print(f"  {name}: {CONTENDERS[name][1]}")
    for name, why in dict.fromkeys(item for row in results for item in row["missing"].items()):
        print(f"  not measured: {name}: {why}")


def main() -> None:
    others = [name for name in CONTENDERS if name != POOL]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--num-threads", type=int, nargs="+", default=[_core.available_cpus()])
    parser.add_argument("--against", nargs="*", choices=others, default=others, help="default: all")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each")
    parser.add_argument("--round-seconds", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    results = []
    for task, envs, threads in itertools.product(parsed.task, parsed.num_envs, parsed.num_threads):
        print(f"measuring {task}, {envs} envs, {threads} threads", file=sys.stderr)
        results.append(
            measure(Case(task, envs, threads), parsed.against, parsed.rounds, parsed.round_seconds)
        )
    print_results(results)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
