"""EnvPool's async send and recv, in an environment of its own; driven by ``async_step.py`` through pipes.

Reads lines ``<task> <num_envs> <batch_size> <num_threads> <calls>`` and answers each with seconds per call.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import envpool
import numpy as np


def main() -> None:
    envs: dict[tuple[str, int, int, int], tuple[Any, list[np.ndarray]]] = {}
    for line in sys.stdin:
        task, num_envs, batch_size, num_threads, calls = line.split()
        key = (task, int(num_envs), int(batch_size), int(num_threads))
        if key not in envs:
            env = envpool.make(
                task, env_type="gymnasium", num_envs=key[1], batch_size=key[2], num_threads=key[3], seed=0
            )
            env.async_reset()
            actions = [np.stack([env.action_space.sample() for _ in range(key[2])]) for _ in range(64)]
            envs[key] = env, actions
        env, actions = envs[key]
        start = time.perf_counter()
        for i in range(int(calls)):
            info = env.recv()[-1]
            env.send(actions[i % len(actions)], info["env_id"])
        print((time.perf_counter() - start) / int(calls), flush=True)


if __name__ == "__main__":
    main()
