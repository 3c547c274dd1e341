"""EnvPool's bare NumPy step, in an environment of its own; driven by ``vs_envpool.py`` through pipes.

Reads lines ``<task> <num_envs> <num_threads> <calls>`` and answers each with seconds per call.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import envpool
import numpy as np


def main() -> None:
    envs: dict[tuple[str, int, int], tuple[Any, list[np.ndarray]]] = {}
    for line in sys.stdin:
        task, num_envs, num_threads, calls = line.split()
        key = (task, int(num_envs), int(num_threads))
        if key not in envs:
            env = envpool.make(task, env_type="gymnasium", num_envs=key[1], num_threads=key[2], seed=0)
            env.reset()
            actions = [np.stack([env.action_space.sample() for _ in range(key[1])]) for _ in range(64)]
            envs[key] = env, actions
        env, actions = envs[key]
        start = time.perf_counter()
        for i in range(int(calls)):
            env.step(actions[i % len(actions)])
        print((time.perf_counter() - start) / int(calls), flush=True)


if __name__ == "__main__":
    main()
