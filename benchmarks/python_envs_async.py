"""Envs of Python, asynchronously: PoolEnv beside TorchRL's AsyncEnvPool, which both speak the same way.

Two workloads: CartPole-v1, 8 envs, where calls cost more than steps; and 32 envs whose steps sleep 1 ms and
whose resets, of episodes of 50 steps, sleep 200 ms. A consumer receives a batch of whichever are ready and
sends it again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from torchrl.envs import AsyncEnvPool, GymEnv, GymWrapper

from torchrl_pool import PoolEnv
from torchrl_pool.bench.alternate import alternate
from torchrl_pool.bench.document import machine_line, save
from torchrl_pool.bench.steppers import AsyncStepper, one_torch_thread
from torchrl_pool.tables import print_table


class Sleeping(gymnasium.Env[Any, Any]):
    """Steps of 1 ms, resets of 200 ms, episodes of 50 steps that begin out of step with each other."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.left = int(np.random.default_rng().integers(1, 50))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        time.sleep(0.2)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(0.001)
        self.left -= 1
        is_over = self.left == 0
        self.left = self.left or 50
        return np.zeros(3, np.float32), 1.0, is_over, False, {}


def wrapped() -> GymWrapper:
    return GymWrapper(Sleeping())


def contenders(
    make: Callable[[], Any] | str, make_torchrl: Callable[[], Any], num_envs: int, workers: int
) -> dict[str, Callable[[], Any]]:
    each = num_envs // workers
    return {
        f"PoolEnv, {workers} workers": lambda: PoolEnv(make, num_envs, num_workers=workers),
        f"AsyncEnvPool, {workers} processes": lambda: AsyncEnvPool(
            [make_torchrl] * num_envs, backend="multiprocessing", envs_per_worker=each
        ),
        f"AsyncEnvPool, {num_envs} threads": lambda: AsyncEnvPool(
            [make_torchrl] * num_envs, backend="threading"
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    workloads = {
        "CartPole-v1": (
            4,
            contenders("gymnasium:CartPole-v1", partial(GymEnv, "CartPole-v1"), 8, 2),
        ),
        "sleeping": (8, contenders(Sleeping, wrapped, 32, 32)),
    }
    rows, results = [], []
    for name, (batch_size, makers) in workloads.items():
        envs = {contender: make() for contender, make in makers.items()}
        running = {contender: AsyncStepper(env, batch_size) for contender, env in envs.items()}
        times = alternate(running, round_seconds=1.0, rounds=parsed.rounds)
        for env in envs.values():
            env.close()
        ours = next(iter(times.values())).median
        for contender, seconds in times.items():
            rate = batch_size / seconds.median
            rows.append([name, contender, f"{rate:,.0f}", f"{seconds.median / ours:.2f}"])
        results.append({"workload": name, "batch_size": batch_size, "seconds_per_batch": times})
    print(f"{machine_line()}\n")
    print_table(["envs", "", "steps/s", "ours is … times as fast"], rows, numbers=2)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
