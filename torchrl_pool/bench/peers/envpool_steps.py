"""EnvPool, in an environment of its own: needs nothing but EnvPool and NumPy.

``python envpool_steps.py TASK NUM_ENVS BATCH_SIZE NUM_THREADS`` makes the pool. Where the batch is all envs
it calls ``step``, else ``recv`` and ``send``. Reads lines ``CALLS`` and answers each when it has made so
many calls; answers ``each CALLS`` with the seconds of each of them.
"""

from __future__ import annotations

import sys
import time

import envpool
import numpy as np


def main() -> None:
    task, num_envs, batch_size, num_threads = sys.argv[1], *map(int, sys.argv[2:])
    is_async = batch_size < num_envs
    env = envpool.make(
        task, env_type="gymnasium", num_envs=num_envs, batch_size=batch_size, num_threads=num_threads, seed=0
    )
    actions = [np.stack([env.action_space.sample() for _ in range(batch_size)]) for _ in range(64)]
    if is_async:
        env.async_reset()
    else:
        env.reset()

    def step(action: np.ndarray) -> None:
        if is_async:
            env.send(action, env.recv()[-1]["env_id"])
        else:
            env.step(action)

    print("ready", flush=True)
    for line in sys.stdin:
        *each, calls = line.split()
        seconds = []
        for i in range(int(calls)):
            if each:
                start = time.perf_counter()
                step(actions[i % 64])
                seconds.append(time.perf_counter() - start)
            else:
                step(actions[i % 64])
        print(*seconds, flush=True)


if __name__ == "__main__":
    main()
