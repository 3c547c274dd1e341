"""Gymnasium's vector interface: steps per second through PoolVectorEnv, EnvPool's and SyncVectorEnv.

NumPy's arrays in and out, random actions, infos as each gives them. Contenders take turns in short rounds.
EnvPool begins episodes in the next step; PoolVectorEnv is measured in that mode and in SAME_STEP.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from torchrl_pool._bench.alternate import alternate
from torchrl_pool._bench.contenders import Contender, Setup, make
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._bench.gymnasium_env import Unavailable
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._core import available_cpus
from torchrl_pool._tables import print_table
from torchrl_pool.gymnasium import PoolVectorEnv

TASKS = ["CartPole-v1", "FrozenLake-v1", "HalfCheetah-v5", "Ant-v5", "ALE/Pong-v5"]
PEERS = {"envpool": "EnvPool", "gymnasium": "SyncVectorEnv"}


def pool(setup: Setup, mode: AutoresetMode) -> Contender:
    envs = PoolVectorEnv(setup.task, setup.num_envs, num_threads=setup.num_threads, autoreset_mode=mode)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [np.asarray(envs.action_space.sample()) for _ in range(64)]

    def run(calls: int) -> None:
        for i in range(calls):
            envs.step(actions[i % 64])

    return Contender(run, setup.num_envs, envs.close)


def contenders(setup: Setup) -> dict[str, Contender]:
    makers: dict[str, Callable[[], Any]] = {
        "PoolVectorEnv": partial(pool, setup, AutoresetMode.NEXT_STEP),
        "PoolVectorEnv, SAME_STEP": partial(pool, setup, AutoresetMode.SAME_STEP),
        **{name: partial(make, peer, setup) for peer, name in PEERS.items()},
    }
    found = {}
    for name, maker in makers.items():
        try:
            found[name] = maker()
        except Unavailable as error:
            print(f"{setup.task}: {name} is left out: {error}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--threads", type=int, default=available_cpus())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-seconds", type=float, default=0.1)
    parser.add_argument("--envpool-python", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for task in parsed.tasks:
        for n in parsed.num_envs:
            running = contenders(Setup(task, n, parsed.threads, parsed.envpool_python))
            times = alternate(
                {name: contender.run for name, contender in running.items()},
                round_seconds=parsed.round_seconds,
                rounds=parsed.rounds,
            )
            for contender in running.values():
                contender.close()
            ours = times["PoolVectorEnv"].median
            for name, seconds in times.items():
                ratio = f"{seconds.median / ours:.2f}"
                rows.append(
                    [task, str(n), name, f"{n / seconds.median:,.0f}", ratio, f"{seconds.spread:.0%}"]
                )
            results.append({"task": task, "num_envs": n, "seconds_per_step": times})
    print(f"{machine_line()}, {parsed.threads} threads\n")
    print_table(["task", "envs", "", "steps/s", "ours is … times as fast", "spread"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
