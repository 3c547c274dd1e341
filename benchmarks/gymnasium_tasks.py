"""Tasks of other packages in worker processes: steps per second beside one env and other vector envs.

Random actions, episodes begun again. Contenders take turns. ``--task`` is an id as in ``gymnasium.make``,
with the module that registers it. Stable-Baselines3's is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from throughput import alternate, machine_line, one_torch_thread, save

from torchrl_pool import PoolEnv
from torchrl_pool._tables import print_table


class Alone:
    """One env in this process."""

    def __init__(self, task: str) -> None:
        self.env = gymnasium.make(task)
        self.env.reset(seed=0)

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            _, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            if terminated or truncated:
                self.env.reset()

    def close(self) -> None:
        self.env.close()


class Pool:
    def __init__(self, task: str, num_envs: int, num_workers: int) -> None:
        self.env = PoolEnv(f"gymnasium:{task}", num_envs, num_workers=num_workers, seed=0)
        self.root = self.env.reset()

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            _, self.root = self.env.step_and_maybe_reset(self.env.rand_action(self.root))

    def close(self) -> None:
        self.env.close()


class Gymnasium:
    def __init__(self, cls: Callable[..., Any], task: str, num_envs: int) -> None:
        makers = [partial(gymnasium.make, task)] * num_envs
        self.envs = cls(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
        self.envs.reset(seed=0)

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            self.envs.step(self.envs.action_space.sample())

    def close(self) -> None:
        self.envs.close()


class StableBaselines3:
    def __init__(self, task: str, num_envs: int) -> None:
        from stable_baselines3.common.vec_env import SubprocVecEnv

        self.envs = SubprocVecEnv([partial(gymnasium.make, task)] * num_envs, start_method="fork")
        self.envs.reset()

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            self.envs.step(np.array([self.envs.action_space.sample() for _ in range(self.envs.num_envs)]))

    def close(self) -> None:
        self.envs.close()


def contenders(task: str, num_envs: int, num_workers: list[int]) -> dict[str, Callable[[], Any]]:
    # Those that fork come first: libraries such as NetHack's do not live through it. TorchRL would spawn.
    forked = partial(gymnasium.vector.AsyncVectorEnv, context="fork")
    found: dict[str, Callable[[], Any]] = {"AsyncVectorEnv": partial(Gymnasium, forked, task, num_envs)}
    with contextlib.suppress(ImportError):
        import stable_baselines3  # noqa: F401

        found["SubprocVecEnv"] = partial(StableBaselines3, task, num_envs)
    for workers in num_workers:
        if workers <= num_envs:
            found[f"PoolEnv, {workers} workers"] = partial(Pool, task, num_envs, workers)
    found["SyncVectorEnv"] = partial(Gymnasium, gymnasium.vector.SyncVectorEnv, task, num_envs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="vizdoom.gymnasium_wrapper:VizdoomBasic-v1")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-seconds", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for n in parsed.num_envs:
        makers = contenders(parsed.task, n, parsed.workers)
        running = {name: make() for name, make in makers.items()} | {"one env alone": Alone(parsed.task)}
        times = alternate(running, round_seconds=parsed.round_seconds, rounds=parsed.rounds)
        for contender in running.values():
            contender.close()
        for name, seconds in times.items():
            steps = (1 if name == "one env alone" else n) / seconds.median
            rows.append([str(n), name, f"{steps:,.0f}", f"{seconds.spread:.0%}"])
        results.append({"num_envs": n, "seconds_per_step": times})
    print(f"{machine_line()}\n")
    print_table(["envs", "", "steps/s", "spread"], rows, numbers=2)
    save(parsed.json, {"task": parsed.task, "runs": results})


if __name__ == "__main__":
    main()
