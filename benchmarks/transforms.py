"""What transforms cost around a pool: by this package and by TorchRL, in a step and in collectors.

The counters are StepCounter, RewardSum and InitTracker; the pipeline is that of TorchRL's PPO example, with
VecNormV2; for Atari it is RewardSum, StepCounter and SignTransform. Steps have the same actions every time,
collectors random ones. Contenders take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from throughput import machine_line, one_torch_thread, save, summary
from torchrl.collectors import Collector
from torchrl.envs import (
    ClipTransform,
    Compose,
    DoubleToFloat,
    EnvBase,
    InitTracker,
    RewardSum,
    SignTransform,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import PoolCollector, PoolEnv, _core, fuse
from torchrl_pool._tables import print_table


def counters() -> Compose:
    return Compose(StepCounter(), RewardSum(), InitTracker())


def pipeline(task: str) -> Compose:
    if task.startswith("ALE/"):
        return Compose(RewardSum(), StepCounter(), SignTransform(in_keys=["reward"]))
    return Compose(
        VecNormV2(["observation"], decay=0.99999, eps=1e-2, reduce_batch_dims=True),
        ClipTransform(["observation"], low=-10, high=10),
        RewardSum(),
        StepCounter(),
        DoubleToFloat(),
    )


def steps(env: EnvBase, num_steps: int) -> Callable[[], None]:
    root = [env.reset()]
    action = env.rand_action(root[0].clone())["action"]

    def step() -> None:
        for _ in range(num_steps):
            _, root[0] = env.step_and_maybe_reset(root[0].set("action", action))

    return step


def batches(cls: type[Collector], env: EnvBase, num_steps: int) -> Callable[[], None]:
    frames = env.batch_size[0] * num_steps
    iterator = iter(cls(env, None, frames_per_batch=frames, total_frames=-1))

    def collect() -> None:
        next(iterator)

    return collect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=["CartPole-v1", "HalfCheetah-v5"])
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--num-steps", type=int, default=32, help="between two turns")
    parser.add_argument("--num-threads", type=int, default=_core.available_cpus())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    n, count = parsed.num_envs, parsed.num_steps
    rows, results = [], []
    for task in parsed.task:

        def pool(task: str = task) -> PoolEnv:
            return PoolEnv(task, n, seed=0, num_threads=parsed.num_threads)

        contenders = {
            "step: bare pool": steps(pool(), count),
            "step: counters": steps(fuse(TransformedEnv(pool(), counters())), count),
            "step: pipeline": steps(fuse(TransformedEnv(pool(), pipeline(task))), count),
            "step: pipeline, TorchRL's": steps(TransformedEnv(pool(), pipeline(task)), count),
            "PoolCollector: bare pool": batches(PoolCollector, pool(), count),
            "PoolCollector: pipeline": batches(PoolCollector, TransformedEnv(pool(), pipeline(task)), count),
            "Collector: bare pool": batches(Collector, pool(), count),
            "Collector: pipeline": batches(Collector, fuse(TransformedEnv(pool(), pipeline(task))), count),
            "Collector: pipeline, TorchRL's": batches(
                Collector, TransformedEnv(pool(), pipeline(task)), count
            ),
        }
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        for i in range(parsed.rounds + 1):
            for name, run in contenders.items():
                start = time.perf_counter()
                run()
                if i > 0:  # the first one warms up
                    samples[name].append((time.perf_counter() - start) / count)
        times = {name: summary(values) for name, values in samples.items()}
        for name, seconds in times.items():
            bare = times[name.split(":")[0] + ": bare pool"]
            share = f"{seconds.median / bare.median:.2f}"
            rows.append([task, name, f"{seconds.median * 1e6:,.0f}", f"±{seconds.spread:.0%}", share])
        results.append({"task": task, "num_envs": n, "seconds_per_step": times})
    print(f"{machine_line()}\n\n{n} envs, {parsed.num_threads} threads")
    print_table(["task", "", "µs a step", "spread", "of the bare pool"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
