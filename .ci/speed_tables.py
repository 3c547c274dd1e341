"""All figures about speed in README and in the docs, and their chart, from ``benchmarks/results``."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from chart import SCHEMES, bars
from generated import CHECKOUT, fill, table, write

DOCUMENTS = [
    "README.md",
    "docs/index.md",
    "docs/benchmarks.md",
    "docs/families/mpe.md",
    "docs/programs.md",
]
CHART = "docs/images/throughput"
MAIN = ["HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5", "CartPole-v1"]
SIDES = {"torchrl_pool": "torchrl_pool, not compiled", "TorchRL's ppo_mujoco": "TorchRL's `ppo_mujoco.py`"}
PEERS = {
    "envpool": "EnvPool",
    "gymnasium": "loop over Gymnasium",
    "torchrl": "ParallelEnv",
}
ONE_ENV_PEERS = {
    "gymnasium-tensors": "Gymnasium with tensors",
    "gymnasium": "Gymnasium",
    "torchrl": "GymEnv",
    "envpool": "EnvPool",
}


@functools.cache
def document(name: str) -> dict[str, Any]:
    return json.loads((CHECKOUT / "benchmarks" / "results" / f"{name}.json").read_text())


def results(name: str) -> Any:
    return document(name)["results"]


def throughput(num_envs: int) -> dict[str, dict[str, Any]]:
    """By task."""
    return {row["task"]: row for row in results("throughput") if row["num_envs"] == num_envs}


def digits(value: float) -> str:
    """Three significant digits."""
    return f"{float(f'{value:.3g}'):,.0f}"


def factor(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def share(row: dict[str, Any]) -> str:
    value = row["pool_is_faster_by"]["raw"]
    return f"{value:.3f}" if value < 0.02 else f"{value:.2f}"


# What the documents say, by the name of its block.


def sentence() -> str:
    """What the first screen says below the chart."""
    cheetah = throughput(64)["HalfCheetah-v5"]
    faster = cheetah["pool_is_faster_by"]
    processes = [row["pool_is_faster_by"]["torchrl"] for row in throughput(8).values()]
    steps = digits(cheetah["steps_per_second"]["torchrl_pool"])
    envpool, gymnasium = factor(faster["envpool"]), factor(faster["gymnasium"])
    return (
        f"HalfCheetah-v5, 64 envs, 2 threads: {steps} steps/s, {envpool} times EnvPool's rate and "
        f"{gymnasium} times that of a loop over Gymnasium. "
        f"With 8 envs, {min(processes):.0f} to {max(processes):.0f} times "
        "as fast as `ParallelEnv`.\n"
    )


def machine(name: str) -> str:
    measured = document(name)
    versions = measured["versions"]
    return (
        f"{measured['machine']['processor']}, {measured['machine']['cpus']} processors, "
        f"Python {versions['python']}, "
        f"torch {versions['torch'].split('+')[0]}, TorchRL {versions['torchrl']}, {measured['date'][:10]}"
    )


def speed(row: dict[str, Any]) -> list[str]:
    """Which pool, and its rate."""
    return [f"`{row['task']}`", str(row["num_envs"]), digits(row["steps_per_second"]["torchrl_pool"])]


SPEED = ["task", "envs:", "steps/s:"]


def speed_table(name: str, peers: dict[str, str]) -> str:
    """Rates of pools beside the bare simulators' and those of other libraries."""
    rows = [
        [*speed(row), share(row), *(factor(row["pool_is_faster_by"].get(peer)) for peer in peers)]
        for row in results(name)
    ]
    header = [*SPEED, "of bare C++:", *(f"times {peer}:" for peer in peers.values())]
    return f"Measured on: {machine(name)}.\n\n{table(header, rows)}"


def throughput_table() -> str:
    """All tasks, and below those of Atari beside ALE's own vector env."""
    by_ale = [(row, row["pool_is_faster_by"].get("ale")) for row in results("throughput")]
    of_atari = [[*speed(row), factor(faster)] for row, faster in by_ale if faster is not None]
    atari = table([*SPEED, "times AtariVectorEnv:"], of_atari)
    return f"{speed_table('throughput', PEERS)}\n{atari}"


def many_agents() -> str:
    peers = {
        "pettingzoo": "loop over mpe2",
        "workers": "mpe2 in workers",
        "torchrl": "ParallelEnv",
        "vmas": "VMAS",
    }
    return speed_table("many_agents", peers)


def one_env() -> str:
    """How one env compares with one Gymnasium env in a loop."""
    rows = [
        [
            row["task"],
            *(factor(row["pool_is_faster_by"].get(peer)) for peer in ONE_ENV_PEERS),
        ]
        for row in results("one_env")
    ]
    return table(["one env", *(f"times {name}:" for name in ONE_ENV_PEERS.values())], rows)


def latency() -> str:
    names = {
        "torchrl_pool": "PoolEnv",
        "envpool": "EnvPool",
        "gymnasium-async": "AsyncVectorEnv",
        "torchrl": "ParallelEnv",
    }
    cells: dict[tuple[str, int], dict[str, str]] = {}
    for row in results("latency"):
        cell = f"{row['p50'] * 1e6:,.0f} ({row['p99'] * 1e6:,.0f})"
        cells.setdefault((row["task"], row["num_envs"]), {})[row["name"]] = cell
    rows = [[f"`{task}`", str(n), *(by.get(name, "") for name in names)] for (task, n), by in cells.items()]
    return table(["task", "envs:", *(f"{name}:" for name in names.values())], rows)


def collecting() -> str:
    """Frames per second, with a policy that costs nothing."""
    sides = ["raw", "PoolEnv alone", "Collector", "PoolCollector"]
    rows = []
    for row in results("collecting"):
        rates = [row["num_envs"] / row["seconds_per_step"][side]["median"] for side in sides]
        rows.append([f"`{row['task']}`", *map(digits, rates)])
    return table(["frames/s", "bare C++ envs:", *(f"{side}:" for side in sides[1:])], rows)


def double_buffered() -> str:
    rows = []
    for row in results("double_buffered"):
        seconds = {side: spread["median"] for side, spread in row["seconds_per_step"].items()}
        buffered = seconds["PoolCollector, double-buffered"]
        rows.append(
            [
                f"`{row['task']}`",
                *(factor(seconds[side] / buffered) for side in ("Collector", "PoolCollector")),
            ]
        )
    return table(["double-buffered PoolCollector", "times Collector:", "times PoolCollector:"], rows)


def heavy_tail() -> str:
    counts = ["sync", "async 32", "async 16", "async 8", "async 4"]
    rows = [
        [f"{row['shape']:g}", *(digits(row["steps_per_second"][count]) for count in counts)]
        for row in results("heavy_tail")
    ]
    return table(["Pareto exponent:", *(f"{count}:" for count in counts)], rows)


def python_envs() -> str:
    """Pools of Python envs in this process and in two workers, beside the vector envs of others."""
    here, workers = "PoolVectorEnv", "PoolVectorEnv, 2 workers"
    pairs = [(here, "SyncVectorEnv"), (workers, "SyncVectorEnv"), (workers, "AsyncVectorEnv")]
    pairs += [
        (workers, "SubprocVecEnv"),
        ("PoolEnv", "SyncVectorEnv"),
        ("PoolEnv, 2 workers", "SyncVectorEnv"),
    ]
    rows = []
    for row in results("python_envs"):
        seconds = {name: spread["median"] for name, spread in row["seconds_per_step"].items()}
        microseconds = row["task"].removeprefix("timed_env:Timed").removesuffix("-v0")
        ratios = [f"{seconds[peer] / seconds[pool]:.2f}" for pool, peer in pairs]
        rows.append([f"{int(microseconds):,}", str(row["num_envs"]), *ratios])
    header = ["µs a step:", "envs:", *(f"{pool} / {peer}:" for pool, peer in pairs)]
    return f"Measured on: {machine('python_envs')}.\n\n" + table(header, rows)


def training_iteration() -> str:
    sides = results("ppo_training")["iterations"]
    whole = {side["side"]: median(s["collecting"] + s["training"] for s in side["samples"]) for side in sides}
    rows = []
    for side in sides:
        parts = [median(s[part] for s in side["samples"]) for part in ("collecting", "training")]
        total = whole[side["side"]]
        cells = [
            *(f"{part:.3f}" for part in parts),
            f"{total:.3f}",
            f"{total / whole['Stable-Baselines3']:.2f}",
        ]
        rows.append([SIDES.get(side["side"], side["side"]), *cells])
    header = ["seconds an iteration", "collecting:", "training:", "all:", "of Stable-Baselines3:"]
    return f"Measured on: {machine('ppo_training')}.\n\n" + table(header, rows)


def training_to_return() -> str:
    rows = []
    for side, curve in results("ppo_lander")["curves"].items():
        last = curve[-1]
        rate = last["frames"] / last["processor_seconds"]
        cells = [f"{last['frames']:,}", f"{last['return']:.0f}", f"{last['seconds']:,.0f} s"]
        rows.append([side, *cells, f"{last['processor_seconds']:,.0f} s", digits(rate)])
    header = [
        "",
        "frames:",
        "mean return:",
        "wall time:",
        "processor time:",
        "frames per second of processor time:",
    ]
    return f"Measured on: {machine('ppo_lander')}, with many other jobs.\n\n" + table(header, rows)


def programs() -> str:
    """Processor seconds of programs of other libraries, and what their weights are equal to."""
    measured = results("programs")
    rows = []
    for name, runs in measured.items():
        weights = {form: {run["weights"] for run in of} for form, of in runs.items()}
        equal = [form for form in ("published", "batch") if weights.get(form) == weights["pool"]]
        seconds = [
            f"{median(run['processor seconds'] for run in runs[form]):.1f}" if form in runs else ""
            for form in ("published", "batch", "pool", "more")
        ]
        updates = f"{runs['pool'][0]['updates']:,}"
        rows.append([f"`{name}`", updates, equal[0] if equal else "other", *seconds])
    fewest = min(len(of) for runs in measured.values() for of in runs.values())
    header = [
        "",
        "updates:",
        "weights of pool",
        *(f"{form}:" for form in ("published", "batch", "pool", "more")),
    ]
    how = f"one thread of torch, medians of {fewest} or more runs, beside other jobs: read them as directions"
    return f"Measured on: {machine('programs')}; {how}.\n\n" + table(header, rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "sentence": sentence,
    "throughput": throughput_table,
    "many_agents": many_agents,
    "one_env": one_env,
    "latency": latency,
    "collecting": collecting,
    "double_buffered": double_buffered,
    "heavy_tail": heavy_tail,
    "python_envs": python_envs,
    "training_iteration": training_iteration,
    "training_to_return": training_to_return,
    "programs": programs,
}


def charts() -> dict[str, str]:
    """SVG by path."""
    rows = throughput(64)
    names = ["torchrl_pool", "envpool", "gymnasium"]
    groups = {task: [rows[task]["steps_per_second"][name] for name in names] for task in MAIN}
    legend = ["PoolEnv", "EnvPool 1.2.5", "loop over Gymnasium"]
    caption = "Steps per second of 64 envs on 2 threads; each task on its own scale"
    return {f"{CHART}-{name}.svg": bars(groups, legend, caption, scheme) for name, scheme in SCHEMES.items()}


def texts() -> dict[str, str]:
    """The documents and the charts, by path."""
    return {name: fill((CHECKOUT / name).read_text(), BLOCKS) for name in DOCUMENTS} | charts()


if __name__ == "__main__":
    sys.exit(write(__doc__, texts))
