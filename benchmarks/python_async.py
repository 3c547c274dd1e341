"""Envs of Python, asynchronously: steps per second of PoolEnv's workers beside TorchRL's AsyncEnvPool.

Three workloads: envs that cost next to nothing; envs with steps of 1 ms and resets of 200 ms, as a web page
or a game server has them; steps whose times are Pareto-distributed, beside the same envs in step. The loop is
that of an actor: receive what is ready, add actions, send it. Sides take turns.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torchrl.envs import AsyncEnvPool, EnvBase, GymWrapper

from torchrl_pool import PoolEnv
from torchrl_pool._bench.alternate import alternate
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._bench.steppers import Stepper, one_torch_thread
from torchrl_pool._tables import print_table

EPISODE = 100  # steps


class Sleeper(gymnasium.Env[Any, Any]):
    """Sleeps; ``shape`` is the exponent of a Pareto distribution whose mean is ``step``."""

    def __init__(self, step: float = 0, reset: float = 0, shape: float | None = None) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._step, self._reset, self._shape = step, reset, shape
        self._observation = np.zeros(4, np.float32)
        self._rng, self._steps = random.Random(), 0

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        if self._reset:
            time.sleep(self._reset)
        self._steps = 0
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seconds = self._step
        if self._shape is not None:
            seconds *= (1 - 1 / self._shape) * self._rng.paretovariate(self._shape)
        if seconds:
            time.sleep(seconds)
        self._steps += 1
        return self._observation, 1.0, self._steps == EPISODE, False, {}


class Workload(NamedTuple):
    make: Callable[[], gymnasium.Env[Any, Any]]
    num_envs: int
    ready: int
    """How many envs a receiver waits for."""
    num_workers: int
    """Of the pool: an env that sleeps keeps its worker's other envs waiting."""


WORKLOADS = {
    "8 envs without latency": Workload(Sleeper, 8, 1, 2),
    "32 envs, steps of 1 ms, resets of 200 ms": Workload(partial(Sleeper, 1e-3, 0.2), 32, 1, 32),
    "32 envs, Pareto 1.5 with mean 1 ms": Workload(partial(Sleeper, 1e-3, 0.0, 1.5), 32, 8, 32),
}


def wrapped(make: Callable[[], gymnasium.Env[Any, Any]]) -> EnvBase:
    return GymWrapper(make())


class Actor:
    """Makes so many steps of envs as it is told, and leaves the others in flight."""

    def __init__(self, env: EnvBase, ready: int) -> None:
        self.env: Any = env
        self.ready = ready
        root = env.reset()
        self._send(root)

    def __call__(self, steps: int) -> None:
        while steps > 0:
            _, root = self.env.async_step_and_maybe_reset_recv(self.ready)
            steps -= len(root)
            self._send(root)

    def _send(self, root: Any) -> None:
        root["action"] = torch.nn.functional.one_hot(torch.randint(2, (len(root),)), 2)
        self.env.async_step_and_maybe_reset_send(root)

    def close(self) -> None:
        self.env.async_step_and_maybe_reset_recv(self.env.num_envs)
        self.env.close()


class InStep:
    """All envs at once, for as many steps of envs."""

    def __init__(self, env: PoolEnv) -> None:
        self.stepper = Stepper(env)

    def __call__(self, steps: int) -> None:
        self.stepper(max(1, steps // self.stepper.env.num_envs))

    def close(self) -> None:
        self.stepper.env.close()


def sides(workload: Workload) -> dict[str, Callable[[], Any]]:
    n, ready = workload.num_envs, workload.ready
    pool = partial(PoolEnv, workload.make, n, num_workers=workload.num_workers)
    peer = partial(AsyncEnvPool, [partial(wrapped, workload.make)] * n, backend="multiprocessing")
    return {
        "PoolEnv": lambda: Actor(pool(), ready),
        "PoolEnv, in step": lambda: InStep(pool()),
        "AsyncEnvPool, queues": lambda: Actor(peer(exchange="queue"), ready),
        "AsyncEnvPool, shared slots": lambda: Actor(peer(exchange="shm"), ready),
        "AsyncEnvPool, shared slots, 4 envs a worker": lambda: Actor(
            peer(exchange="shm", envs_per_worker=4), ready
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="W")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for name in parsed.workloads:
        running = {side: make() for side, make in sides(WORKLOADS[name]).items()}
        times = alternate(running, round_seconds=0.5, rounds=parsed.rounds)
        for side in running.values():
            side.close()
        ours = times["PoolEnv"].median
        rows += [
            [name, side, f"{1 / t.median:,.0f}", f"{t.median / ours:.2f}", f"{t.spread:.0%}"]
            for side, t in times.items()
        ]
        results.append({"workload": name, "seconds_per_step": times})
    print(f"{machine_line()}\n")
    print_table(["", "", "steps/s", "ours is … times as fast", "spread"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
