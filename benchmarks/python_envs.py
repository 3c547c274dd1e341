"""Envs of Python in worker processes: steps per second beside what one would take instead.

CartPole-v1 of Gymnasium, random actions, episodes begun again. Contenders take turns. Stable-Baselines3 runs
in a Python that has it: --stable-baselines3 PYTHON.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from torchrl.envs import EnvBase, GymEnv, ParallelEnv, SerialEnv

from torchrl_pool import PoolEnv
from torchrl_pool.bench.alternate import alternate
from torchrl_pool.bench.document import machine_line, save
from torchrl_pool.bench.steppers import one_torch_thread
from torchrl_pool.tables import print_table

TASK = "CartPole-v1"
ACTIONS = 16  # batches of them, in turn


class TorchRL:
    """``step_and_maybe_reset``, as collectors call it."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root = env.reset()
        self.actions = [env.action_spec.rand() for _ in range(ACTIONS)]

    def __call__(self, calls: int) -> None:
        for i in range(calls):
            self.root["action"] = self.actions[i % ACTIONS]
            _, self.root = self.env.step_and_maybe_reset(self.root)

    def close(self) -> None:
        self.env.close()


class Gymnasium:
    def __init__(self, cls: type, num_envs: int) -> None:
        makers = [partial(gymnasium.make, TASK)] * num_envs
        self.envs = cls(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
        self.envs.reset(seed=0)
        self.actions = [np.random.randint(0, 2, num_envs) for _ in range(ACTIONS)]

    def __call__(self, calls: int) -> None:
        for i in range(calls):
            self.envs.step(self.actions[i % ACTIONS])

    def close(self) -> None:
        self.envs.close()


class StableBaselines3:
    """Another interpreter, which makes as many steps as it is told in a line."""

    PROGRAM = """
import sys, numpy as np, gymnasium as gym
from stable_baselines3.common.vec_env import SubprocVecEnv
if __name__ == "__main__":
    n = int(sys.argv[1])
    envs = SubprocVecEnv([lambda: gym.make("CartPole-v1")] * n, start_method="fork")
    envs.reset()
    actions = [np.random.randint(0, 2, n) for _ in range(16)]
    for line in sys.stdin:
        for i in range(int(line)):
            envs.step(actions[i % 16])
        print(flush=True)
    envs.close()
"""

    def __init__(self, python: str, num_envs: int) -> None:
        self.process = subprocess.Popen(
            [python, "-c", self.PROGRAM, str(num_envs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, calls: int) -> None:
        assert self.process.stdin
        assert self.process.stdout
        print(calls, file=self.process.stdin, flush=True)
        self.process.stdout.readline()

    def close(self) -> None:
        self.process.communicate()


def contenders(num_envs: int, workers: int, python: str | None) -> dict[str, Callable[[], Any]]:
    make = partial(GymEnv, TASK)
    task = f"gymnasium:{TASK}"
    few = partial(SerialEnv, num_envs // workers, make)
    found: dict[str, Callable[[], Any]] = {
        f"PoolEnv, {workers} workers": lambda: TorchRL(PoolEnv(task, num_envs, num_workers=workers)),
        "PoolEnv, none": lambda: TorchRL(PoolEnv(task, num_envs, num_workers=0)),
        f"PoolEnv of GymEnv, {workers} workers": lambda: TorchRL(
            PoolEnv(make, num_envs, num_workers=workers)
        ),
        "SyncVectorEnv": lambda: Gymnasium(gymnasium.vector.SyncVectorEnv, num_envs),
        "AsyncVectorEnv": lambda: Gymnasium(gymnasium.vector.AsyncVectorEnv, num_envs),
        "SerialEnv": lambda: TorchRL(SerialEnv(num_envs, make)),
        f"ParallelEnv({workers}, SerialEnv)": lambda: TorchRL(
            ParallelEnv(workers, few, mp_start_method="fork")
        ),
    }
    if python:
        found["SubprocVecEnv"] = lambda: StableBaselines3(python, num_envs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--stable-baselines3", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for n in parsed.num_envs:
        makers = contenders(n, parsed.workers, parsed.stable_baselines3)
        running = {name: make() for name, make in makers.items()}
        times = alternate(running, round_seconds=0.1, rounds=parsed.rounds)
        for contender in running.values():
            contender.close()
        ours = next(iter(times.values())).median
        for name, seconds in times.items():
            rows.append(
                [
                    str(n),
                    name,
                    f"{n / seconds.median:,.0f}",
                    f"{seconds.median / ours:.2f}",
                    f"{seconds.spread:.0%}",
                ]
            )
        results.append({"num_envs": n, "seconds_per_step": times})
    print(f"{machine_line()}\n")
    print_table(["envs", "", "steps/s", "ours is … times as fast", "spread"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
