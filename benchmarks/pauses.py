"""What a step costs after a pause, in which a policy has worked: the median time of the step alone.

Threads may have gone to sleep meanwhile, and caches hold what the policy used. One thread shows the latter
alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from torchrl_pool import PoolEnv, _core
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._tables import print_table

TASKS = ["CartPole-v1", "HalfCheetah-v5", "gymnasium:CartPole-v1"]


class Policy:
    """A network of 64 units, called again and again for so many microseconds."""

    def __init__(self) -> None:
        layers = [torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)]
        self.network, self.inputs = torch.nn.Sequential(*layers), torch.randn(64, 64)

    @torch.no_grad()
    def work(self, microseconds: int) -> None:
        end = time.perf_counter() + microseconds * 1e-6
        while time.perf_counter() < end:
            self.network(self.inputs)


def measure(env: PoolEnv, pauses: list[int], rounds: int, calls: int) -> dict[int, float]:
    """Median seconds of a step, by the microseconds before it."""
    policy, actions = Policy(), [env.rand_action()["action"].clone() for _ in range(16)]
    root = env.reset()
    seconds: dict[int, list[float]] = {pause: [] for pause in pauses}
    for _ in range(rounds):
        for pause, times in seconds.items():
            for call in range(calls):
                policy.work(pause)
                root["action"] = actions[call % len(actions)]
                start = time.perf_counter()
                _, root = env.step_and_maybe_reset(root)
                times.append(time.perf_counter() - start)
    return {pause: statistics.median(times) for pause, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, _core.available_cpus()}))
    parser.add_argument("--pauses", type=int, nargs="+", default=[200, 600, 1000], help="in µs")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--calls", type=int, default=200, help="in each round")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    pauses = [0, *parsed.pauses]
    rows, results = [], []
    for task in parsed.task:
        of_threads = "num_workers" if task.startswith("gymnasium:") else "num_threads"
        for n in parsed.num_envs:
            for threads in parsed.threads:
                env = PoolEnv(task, n, **{of_threads: threads})
                seconds = measure(env, pauses, parsed.rounds, parsed.calls)
                env.close()
                rows.append([task, str(n), str(threads), *(f"{seconds[p] * 1e6:,.1f}" for p in pauses)])
                results += [
                    {"task": task, "num_envs": n, of_threads: threads, "pause": p * 1e-6, "seconds": s}
                    for p, s in seconds.items()
                ]
    print(machine_line(), "\n\nµs for a step of all envs, after so many µs of a policy")
    print_table(["task", "envs", "threads", *map(str, pauses)], rows, numbers=len(pauses))
    save(parsed.json, results)


if __name__ == "__main__":
    main()
