"""Many steps with pools that come and go: memory (KiB), threads and file descriptors stay as they are."""

from __future__ import annotations

import argparse
import gc
import os
import time
from pathlib import Path
from typing import Any

from throughput import one_torch_thread, save

from torchrl_pool import PoolEnv
from torchrl_pool._tables import print_table


def resources() -> dict[str, int]:
    """What this process holds: resident memory in KiB, threads, file descriptors."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "memory": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
    }


def cycle(task: str, num_envs: int, steps: int) -> int:
    """Creates a pool, steps it synchronously and asynchronously, closes it; returns the steps made."""
    env = PoolEnv(task, num_envs, num_threads=2, seed=0)
    root = env.rand_action(env.reset())
    for _ in range(steps):
        root = env.rand_action(env.step_and_maybe_reset(root)[1])
    env.async_step_and_maybe_reset_send(root, range(num_envs))
    env.async_step_and_maybe_reset_recv(num_envs)
    env.close()
    return num_envs * (steps + 1)


def soak(task: str, num_envs: int, steps_per_cycle: int, steps: int) -> dict[str, Any]:
    """Makes so many steps; what the process held after the first tenth of them, and at the end."""
    start = time.monotonic()
    made = cycles = 0
    before: dict[str, int] = {}
    while made < steps:
        made += cycle(task, num_envs, steps_per_cycle)
        cycles += 1
        if not before and made >= steps / 10:
            before = resources()
    return {
        "steps": made,
        "cycles": cycles,
        "seconds": time.monotonic() - start,
        "before": before,
        "after": resources(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps-per-cycle", type=int, default=100)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    result = soak(parsed.task, parsed.num_envs, parsed.steps_per_cycle, parsed.steps)
    before, after = result["before"], result["after"]
    print(
        f"{result['steps']:,} steps of {parsed.task} in {result['cycles']:,} pools, {result['seconds']:.1f} s"
    )
    rows = [[name, f"{before[name]:,}", f"{after[name]:,}"] for name in before]
    print_table(["", "after a tenth", "at the end"], rows, numbers=2)
    save(parsed.json, result)


if __name__ == "__main__":
    main()
