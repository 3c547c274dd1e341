"""What creating a pool costs: seconds until the first reset has returned, and memory per env."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from alternate import save
from stepping import print_table

# In a process of its own each time, so that nothing is warm and memory is that of one pool.
_SCRIPT = """
import sys, time
import torch
from torchrl_pool import PoolEnv

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

task, num_envs, num_threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
warm = PoolEnv(task, 1)
warm.rollout(2)
warm.close()
before = resident()
start = time.perf_counter()
env = PoolEnv(task, num_envs, num_threads=num_threads, seed=0)
root = env.reset()
created = time.perf_counter() - start
for _ in range(20):
    root = env.step_and_maybe_reset(env.rand_action(root))[1]
print(created, (resident() - before) / num_envs)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--task", nargs="+", default=["Humanoid-v5", "HalfCheetah-v5", "Ant-v5", "CartPole-v1"]
    )
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    rows, results = [], []
    for task in parsed.task:
        runs = []
        for _ in range(parsed.repetitions):
            arguments = [sys.executable, "-c", _SCRIPT, task, str(parsed.num_envs), str(parsed.num_threads)]
            output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            runs.append(tuple(map(float, output.split()[-2:])))
        seconds, memory = (sorted(column)[len(runs) // 2] for column in zip(*runs, strict=True))
        rows.append([task, parsed.num_envs, f"{seconds:.2f}", f"{memory / 2**20:.2f}"])
        result: dict[str, Any] = {"task": task, "num_envs": parsed.num_envs, "seconds": seconds}
        results.append({**result, "bytes_per_env": memory})
    print_table(["task", "N", "seconds", "MiB per env"], rows)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
