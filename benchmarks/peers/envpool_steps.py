"""EnvPool, in an environment of its own: needs nothing but EnvPool and NumPy.

``python envpool_steps.py TASK NUM_ENVS NUM_THREADS`` makes the pool. Prints "ready", or why it is not. Reads
lines ``CALLS`` and answers each when it has made so many calls of ``step``; answers ``each CALLS`` with the
seconds of each.
"""

from __future__ import annotations

import sys
import time

import envpool
import numpy as np


def main() -> None:
    task, num_envs, num_threads = sys.argv[1], *map(int, sys.argv[2:])
    if task not in envpool.list_all_envs():
        print(f"EnvPool {envpool.__version__} has no {task}")
        return
    env = envpool.make(task, env_type="gymnasium", num_envs=num_envs, num_threads=num_threads, seed=0)
    actions = [np.stack([env.action_space.sample() for _ in range(num_envs)]) for _ in range(64)]
    env.reset()
    print("ready", flush=True)
    for line in sys.stdin:
        *each, calls = line.split()
        seconds = []
        for i in range(int(calls)):
            start = time.perf_counter() if each else 0.0
            env.step(actions[i % 64])
            if each:
                seconds.append(time.perf_counter() - start)
        print(*seconds, flush=True)


if __name__ == "__main__":
    main()
