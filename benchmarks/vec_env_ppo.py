"""Stable-Baselines3's PPO, unchanged, on its own vector envs and on PoolVecEnv: seconds, and what is learnt.

From the same seeds the learning curves of DummyVecEnv and of PoolVecEnv are the same, number by number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecMonitor

from torchrl_pool._bench.alternate import summary
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._tables import print_table
from torchrl_pool.stable_baselines3 import PoolVecEnv

TASKS = ["CartPole-v1", "HalfCheetah-v5"]
Run: TypeAlias = tuple[float, float, list[float]]


class Curve(BaseCallback):
    """The mean return of the last hundred episodes after each collection, and what collecting took."""

    def _on_training_start(self) -> None:
        self.returns: list[float] = []
        self.collecting = 0.0

    def _on_rollout_start(self) -> None:
        self.began = time.perf_counter()

    def _on_rollout_end(self) -> None:
        self.collecting += time.perf_counter() - self.began
        episodes = [float(episode["r"]) for episode in self.model.ep_info_buffer or []]
        self.returns.append(sum(episodes) / max(1, len(episodes)))

    def _on_step(self) -> bool:
        return True


def learn(env: VecEnv, frames: int) -> Run:
    """Seconds of the whole and of collecting, and the learning curve."""
    curve = Curve()
    model = PPO("MlpPolicy", VecMonitor(env), n_steps=2048 // env.num_envs, seed=0, device="cpu")
    start = time.perf_counter()
    model.learn(frames, callback=curve)
    seconds = time.perf_counter() - start
    env.close()
    return seconds, curve.collecting, curve.returns


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--frames", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    rows, results = [], []
    for task in parsed.tasks:
        makers = [partial(gymnasium.make, task)] * parsed.num_envs
        contenders: dict[str, Callable[[], VecEnv]] = {
            "PoolVecEnv": partial(PoolVecEnv, task, parsed.num_envs),
            "DummyVecEnv": partial(DummyVecEnv, makers),
            "SubprocVecEnv": partial(SubprocVecEnv, makers, start_method="fork"),
        }
        runs: dict[str, list[Run]] = {name: [] for name in contenders}
        for _ in range(parsed.rounds):
            for name, make in contenders.items():
                runs[name].append(learn(make(), parsed.frames))
        for name, found in runs.items():
            whole, collecting = (summary([run[i] for run in found]) for i in (0, 1))
            same = all(run[2] == runs["DummyVecEnv"][0][2] for run in found)
            last, is_same = found[0][2][-1], "yes" if same else "no"
            rows.append(
                [task, name, f"{whole.median:.2f}", f"{collecting.median:.2f}", f"{last:.3f}", is_same]
            )
            results.append({"task": task, "env": name, "seconds": whole, "collecting": collecting})
            results[-1]["curve"] = found[0][2]
    print(f"{machine_line()}, {parsed.num_envs} envs, {parsed.frames} frames\n")
    header = ["task", "", "seconds", "of it collecting", "last mean return", "curve as DummyVecEnv's"]
    print_table(header, rows, numbers=2)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
