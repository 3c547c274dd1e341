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
TASKS = {"dqn": "CartPole-v1", "sac": "HalfCheetah-v5"}


# ---- the sides, each in a process of its own; they import what their environments have


def pool_side(algorithm: str, *, compile: bool) -> Iterator[None]:
    from importlib import import_module

    module = import_module(f"torchrl_pool.examples.{algorithm}")
    asked = ["--task", TASKS[algorithm], "--learning-starts", str(FRAMES), "--frames-per-row", str(FRAMES)]
    config = module.PROGRAM.config_of(module.PROGRAM.parser().parse_args(asked))
    with tempfile.TemporaryDirectory() as folder:
        training = module.PROGRAM.training(config, Path(folder), compile=compile)
        while True:
            training.iterate()
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


SIDES: dict[str, Callable[[str], Iterator[None]]] = {
    "torchrl_pool, compiled": partial(pool_side, compile=True),
    "torchrl_pool": partial(pool_side, compile=False),
    "Stable-Baselines3, one env": partial(sb3_side, num_envs=1),
    "Stable-Baselines3, DummyVecEnv of 10": partial(sb3_side, num_envs=10),
}


def is_peer(side: str) -> bool:
    return side.startswith("Stable")


def serve(side: str, algorithm: str) -> None:
    """Takes a turn for each line of the standard input, and answers with its seconds."""
    import torch

    torch.set_num_threads(1)
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        turns = SIDES[side](algorithm)
        for _ in sys.stdin:
            start = time.perf_counter()
            next(turns)
            print(time.perf_counter() - start, file=answers, flush=True)


# ---- the table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithms", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--turns", type=int, default=8, help="of each side, after three to warm up")
    parser.add_argument("--sb3-python", help="an interpreter with Stable-Baselines3")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.serve:
        serve(*parsed.serve)
        return

    from torchrl_pool.bench.document import machine_line, save
    from torchrl_pool.bench.peer_process import PeerProcess
    from torchrl_pool.tables import print_table

    if parsed.sb3_python is None:
        print("Stable-Baselines3 is left out: --sb3-python names an interpreter that has it")
    results, rows = [], []
    for algorithm in parsed.algorithms:
        sides = [side for side in SIDES if parsed.sb3_python or not is_peer(side)]
        if algorithm == "sac":  # an update for each step of one env
            sides = [side for side in sides if "10" not in side]
        peers = {
            side: PeerProcess(
                [
                    parsed.sb3_python if is_peer(side) else sys.executable,
                    *["-Wignore", __file__, "--serve", side, algorithm],
                ]
            )
            for side in sides
        }
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(parsed.turns + 3):
            for side, peer in peers.items():
                taken = float(peer.request())
                if turn >= 3:
                    seconds[side].append(taken)
        for peer in peers.values():
            peer.close()
        best = min((statistics.median(seconds[side]) for side in sides if is_peer(side)), default=None)
        for side, taken_by in seconds.items():
            median = statistics.median(taken_by)
            share = "" if best is None else f"{median / best:.2f}"
            rows.append([f"{algorithm}, {TASKS[algorithm]}", side, f"{median:.3f}", share])
            results.append({"algorithm": algorithm, "side": side, "seconds": taken_by})
    print(f"{machine_line()}\n\nseconds of {FRAMES:,} env steps, medians of {parsed.turns} turns")
    print_table(["", "", "seconds", "of the best peer"], rows, numbers=2)
    save(parsed.json, {"frames": FRAMES, "turns": results})


if __name__ == "__main__":
    main()
