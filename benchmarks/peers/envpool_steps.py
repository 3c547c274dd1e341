"""EnvPool, in an environment of its own: needs nothing but EnvPool and NumPy.

``python envpool_steps.py TASK NUM_ENVS BATCH_SIZE NUM_THREADS`` makes the pool. Where the batch is all envs
it calls ``step``, else ``recv`` and ``send``. Prints "ready", or why it is not. Reads lines ``CALLS`` and
answers each when it has made so many calls; answers ``each CALLS`` with the seconds of each ``step``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np

# Actions to take in turn, a number of calls, whether to time each of them: their seconds, if so.
Step = Callable[[list[np.ndarray], int, bool], list[float]]


def main() -> None:
    task, num_envs, batch_size, num_threads = sys.argv[1], *map(int, sys.argv[2:])
    is_async = batch_size < num_envs
    if task not in envpool.list_all_envs():
        print(f"EnvPool {envpool.__version__} has no {task}")
        return
    env = envpool.make(
        task, env_type="gymnasium", num_envs=num_envs, batch_size=batch_size, num_threads=num_threads, seed=0
    )
    actions = [np.stack([env.action_space.sample() for _ in range(batch_size)]) for _ in range(64)]
    step = in_flight(env, num_envs // batch_size) if is_async else in_turn(env)
    print("ready", flush=True)
    for line in sys.stdin:
        *each, calls = line.split()
        print(*step(actions, int(calls), bool(each)), flush=True)


def in_turn(env: Any) -> Step:
    env.reset()

    def step(actions: list[np.ndarray], calls: int, each: bool) -> list[float]:
        seconds = []
        for i in range(calls):
            if each:
                start = time.perf_counter()
                env.step(actions[i % 64])
                seconds.append(time.perf_counter() - start)
            else:
                env.step(actions[i % 64])
        return seconds

    return step


def in_flight(env: Any, num_batches: int) -> Step:
    """Receives a batch and sends it again; between two requests nothing is in flight."""
    env.async_reset()

    def receive() -> np.ndarray:
        return np.array(env.recv()[-1]["env_id"])

    idle = [receive() for _ in range(num_batches)]

    def step(actions: list[np.ndarray], calls: int, each: bool) -> list[float]:
        sent = 0
        for i in range(calls):
            if idle:
                envs = idle.pop()
                sent += 1
            else:
                envs = receive()
            env.send(actions[i % 64], envs)
        idle.extend(receive() for _ in range(sent))
        return []

    return step


if __name__ == "__main__":
    main()
