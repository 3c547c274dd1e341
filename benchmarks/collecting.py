"""PoolCollector against Collector on the same PoolEnv, the env alone, and its bare C++ envs.

The policy costs nothing: its actions were drawn beforehand. With ``--inference SHARE`` it sleeps, as one on a
GPU would let the processors sleep, for that share of the time of an env step; for a group of the envs
accordingly shorter. Then PoolCollector with ``double_buffered`` is measured too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from contenders import CONTENDERS, Case, Stepper
from tensordict import TensorDictBase
from throughput import machine_line, one_torch_thread, save, summary
from torchrl.collectors import Collector

from torchrl_pool import PoolCollector, PoolEnv, _core
from torchrl_pool._tables import print_table


class DrawnBefore:
    """A policy whose actions are there already."""

    def __init__(self, env: PoolEnv, seconds: float) -> None:
        self.stock = [env.rand_action()["action"].clone() for _ in range(16)]
        self.num_envs, self.seconds, self.calls = env.num_envs, seconds, 0

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        count = len(tensordict)
        if self.seconds > 0:
            time.sleep(self.seconds * count / self.num_envs)
        self.calls += 1
        return tensordict.set("action", self.stock[self.calls % len(self.stock)][:count])


def batches(
    cls: type[Collector], env: PoolEnv, num_steps: int, seconds: float, **options: object
) -> Callable[[], None]:
    frames = env.num_envs * num_steps
    iterator = iter(
        cls(
            env,
            DrawnBefore(env, seconds),
            frames_per_batch=frames,
            total_frames=-1,
            trust_policy=True,
            **options,
        )
    )

    def collect() -> None:
        next(iterator)

    return collect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=["CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5"])
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--num-threads", type=int, default=_core.available_cpus())
    parser.add_argument("--inference", type=float, default=0.0, metavar="SHARE", help="of an env step's time")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    n, steps = parsed.num_envs, parsed.num_steps
    rows, results = [], []
    for task in parsed.task:
        make = partial(PoolEnv, task, n, num_threads=parsed.num_threads)
        stepper = Stepper(make())
        stepper(steps)
        start = time.perf_counter()
        stepper(steps)
        inference = parsed.inference * (time.perf_counter() - start) / steps
        raw = CONTENDERS["raw"][0](Case(task, n, parsed.num_threads))
        contenders: dict[str, Callable[[], None]] = {"raw": partial(raw.run, steps)}
        if inference == 0:
            contenders["PoolEnv alone"] = partial(stepper, steps)
        contenders["Collector"] = batches(Collector, make(), steps, inference)
        contenders["PoolCollector"] = batches(PoolCollector, make(), steps, inference)
        if inference > 0:
            contenders["PoolCollector, double-buffered"] = batches(
                PoolCollector, make(), steps, inference, double_buffered=True
            )
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        for i in range(parsed.rounds + 1):
            for name, run in contenders.items():
                start = time.perf_counter()
                run()
                if i > 0:  # the first one warms up
                    samples[name].append((time.perf_counter() - start) / steps)
        times = {name: summary(values) for name, values in samples.items()}
        limit = times["raw"].median
        for name, seconds in times.items():
            median = statistics.median(samples[name])
            rows.append([task, name, f"{n / median:,.0f}", f"±{seconds.spread:.0%}", f"{limit / median:.2f}"])
        results.append({"task": task, "num_envs": n, "inference": inference, "seconds_per_step": times})
        raw.close()
    print(f"{machine_line()}\n\n{n} envs, batches of {steps} steps, {parsed.num_threads} threads")
    print_table(["task", "", "steps/s", "spread", "of raw"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
