"""What creating a pool costs, by number of envs: seconds until the first reset has returned, and memory."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from torchrl_pool import _core
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._tables import print_table

TASKS = ["CartPole-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5"]

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
print(created, resident() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1, 64, 256, 1024])
    parser.add_argument("--num-threads", type=int, default=_core.available_cpus())
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    rows, results = [], []
    for task in parsed.task:
        for n in parsed.num_envs:
            runs = []
            for _ in range(parsed.repetitions):
                arguments = [sys.executable, "-c", _SCRIPT, task, str(n), str(parsed.num_threads)]
                output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
                runs.append(tuple(map(float, output.split()[-2:])))
            seconds, memory = (statistics.median(column) for column in zip(*runs, strict=True))
            mib = memory / 2**20
            rows.append([task, str(n), f"{seconds * 1e3:.1f}", f"{mib:.1f}", f"{mib / n:.3f}"])
            results.append({"task": task, "num_envs": n, "seconds": seconds, "bytes": memory})
    print(machine_line(), "\n\nafter a first pool of one env, in a process of its own; memory after 20 steps")
    print_table(["task", "envs", "ms", "MiB", "MiB per env"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
