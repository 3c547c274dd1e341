"""Seconds of a thousand env steps and their updates, of DQN and SAC, beside Stable-Baselines3's.

The same task, networks and settings on each side: DQN on CartPole-v1 with ten steps between two updates, SAC
on HalfCheetah-v5 with an update after each step. Each side is a process of its own, and they take turns.
``--sb3-python`` names the interpreter of an environment that has Stable-Baselines3:

    python -m venv sb3 && sb3/bin/pip install torch==2.13.0 stable-baselines3 'gymnasium[mujoco]'
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

FRAMES = 1000  # of a turn, and before the first update
WARM_UP = 3  # turns: until there are updates, and they are compiled
TASKS = {"dqn": "CartPole-v1", "sac": "HalfCheetah-v5"}


# ---- the sides, each in a process of its own; they import what their environments have


def pool_side(algorithm: str, *, compile: bool) -> Iterator[None]:
    from importlib import import_module

    from torchrl_pool.examples.run import Run

    module = import_module(f"torchrl_pool.examples.{algorithm}")
    asked = ["--task", TASKS[algorithm], "--learning-starts", str(FRAMES), "--frames-per-row", str(FRAMES)]
    _, config = module.PROGRAM.parse(asked)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(module.PROGRAM.train, config, Path(folder), compile=compile)
        while True:
            run.iterate()
            yield


def sb3_side(algorithm: str, *, num_envs: int) -> Iterator[None]:
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    settings: dict[str, Any] = {"learning_starts": FRAMES, "device": "cpu"}
    if algorithm == "dqn":  # CleanRL's
        settings |= {"policy_kwargs": {"net_arch": [120, 84]}, "learning_rate": 2.5e-4, "batch_size": 128}
        settings |= {"buffer_size": 10_000, "train_freq": 10 // num_envs, "target_update_interval": 500}
    envs = make_vec_env(TASKS[algorithm], num_envs)
    model = getattr(stable_baselines3, algorithm.upper())("MlpPolicy", envs, **settings)
    while True:
        model.learn(FRAMES, reset_num_timesteps=False)
        yield


POOL: dict[str, Callable[[str], Iterator[None]]] = {
    "torchrl_pool, compiled": partial(pool_side, compile=True),
    "torchrl_pool": partial(pool_side, compile=False),
}
ONE_ENV, TEN_ENVS = "Stable-Baselines3, one env", "Stable-Baselines3, DummyVecEnv of 10"
PEERS: dict[str, Callable[[str], Iterator[None]]] = {
    ONE_ENV: partial(sb3_side, num_envs=1),
    TEN_ENVS: partial(sb3_side, num_envs=10),
}
PEERS_OF = {"dqn": [ONE_ENV, TEN_ENVS], "sac": [ONE_ENV]}  # SAC makes an update for each step of one env


def serve(side: str, algorithm: str) -> None:
    """Takes a turn for each line of the standard input, and answers with its seconds."""
    import torch

    torch.set_num_threads(1)
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        turns = {**POOL, **PEERS}[side](algorithm)
        for _ in sys.stdin:
            start = time.perf_counter()
            next(turns)
            print(time.perf_counter() - start, file=answers, flush=True)


# ---- the table


def measure(algorithm: str, sb3_python: str | None, num_turns: int) -> dict[str, list[float]]:
    """Seconds of each turn, by side."""
    from contenders import PeerProcess

    pythons = dict.fromkeys(POOL, sys.executable)
    if sb3_python is not None:
        pythons |= dict.fromkeys(PEERS_OF[algorithm], sb3_python)
    processes = {
        side: PeerProcess([python, "-Wignore", __file__, "--serve", side, algorithm])
        for side, python in pythons.items()
    }
    taken = [
        {side: float(process.request()) for side, process in processes.items()}
        for _ in range(WARM_UP + num_turns)
    ]
    for process in processes.values():
        process.close()
    return {side: [turn[side] for turn in taken[WARM_UP:]] for side in processes}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithms", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--turns", type=int, default=8, help=f"of each side, after {WARM_UP} to warm up")
    parser.add_argument("--sb3-python", help="an interpreter with Stable-Baselines3")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.serve:
        serve(*parsed.serve)
        return

    from throughput import machine_line, save

    from torchrl_pool._tables import print_table

    if parsed.sb3_python is None:
        print("Stable-Baselines3 is left out: --sb3-python names an interpreter that has it")
    results, rows = [], []
    for algorithm in parsed.algorithms:
        seconds = measure(algorithm, parsed.sb3_python, parsed.turns)
        medians = {side: statistics.median(taken) for side, taken in seconds.items()}
        best = min((median for side, median in medians.items() if side in PEERS), default=None)
        for side, median in medians.items():
            share = "" if best is None else f"{median / best:.2f}"
            rows.append([f"{algorithm}, {TASKS[algorithm]}", side, f"{median:.3f}", share])
            results.append({"algorithm": algorithm, "side": side, "seconds": seconds[side]})
    print(f"{machine_line()}\n\nseconds of {FRAMES:,} env steps, medians of {parsed.turns} turns")
    print_table(["", "", "seconds", "of the best peer"], rows, numbers=2)
    save(parsed.json, {"frames": FRAMES, "turns": results})


if __name__ == "__main__":
    main()
