"""Steps per second of Atari: ``PoolEnv.step_and_maybe_reset`` against its peers, alternating in one run.

The peers: EnvPool, ale-py's AtariVectorEnv, and the bare emulator of ale-py's wheel, which makes no pictures
and runs in one process per thread.

EnvPool needs a virtual environment of its own: give its interpreter with ``--envpool-python``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from alternate import alternate, save
from peer_process import bare_ale, envpool
from stepping import Stepper, one_torch_thread, print_table

from torchrl_pool import PoolEnv


def envpool_steps(python: str, task: str, n: int, threads: int) -> Callable[[int], None]:
    peer = envpool(python)
    return lambda calls: peer.request(task, n, threads, calls)


def vector_steps(game: str, n: int, threads: int) -> Callable[[int], None]:
    env = AtariVectorEnv(game, n, num_threads=threads)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = rng.integers(env.single_action_space.n, size=(64, n))

    def run(calls: int) -> None:
        for i in range(calls):
            env.step(actions[i % 64])

    return run


def bare_steps(game: str, n: int, threads: int) -> Callable[[int], None]:
    """As many steps as ``n`` envs make, shared among processes that do nothing else."""
    peers = [bare_ale() for _ in range(threads)]

    def run(calls: int) -> None:
        for peer in peers:
            peer.start(game, calls * n // threads)
        for peer in peers:
            peer.wait()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envpool-python", required=True)
    parser.add_argument("--game", default="pong", help="as ALE names it")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    game, n, threads = parsed.game, parsed.num_envs, parsed.num_threads
    name = game.title().replace("_", "")
    contenders = {
        "torchrl_pool": Stepper(PoolEnv(f"ALE/{name}-v5", n, num_threads=threads)),
        "envpool": envpool_steps(parsed.envpool_python, f"{name}-v5", n, threads),
        "ale_vector": vector_steps(game, n, threads),
        "bare": bare_steps(game, n, threads),
    }
    times = alternate(contenders, round_seconds=0.3, rounds=parsed.rounds)
    rates = {name: n / seconds.median for name, seconds in times.items()}
    ratios = {name: rates["torchrl_pool"] / rate for name, rate in rates.items()}
    rows = [[name, f"{rates[name]:,.0f}", f"{ratios[name]:.2f}"] for name in contenders]
    print_table(["", "steps/s", "torchrl_pool is faster by"], rows)
    save(
        parsed.json,
        {
            "task": f"ALE/{name}-v5",
            "num_envs": n,
            "num_threads": threads,
            "seconds_per_call": times,
            "steps_per_second": rates,
            "ratios": ratios,
        },
    )


if __name__ == "__main__":
    main()
