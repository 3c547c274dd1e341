"""How long one vector step takes, and how long the slowest do: the 50th and the 99th percentile."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from contenders import POOL, Case, make_all
from throughput import machine_line, one_torch_thread, save

from torchrl_pool import _core
from torchrl_pool._tables import print_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=["CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5"])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--num-threads", type=int, default=_core.available_cpus())
    parser.add_argument("--against", nargs="+", default=["envpool", "gymnasium-async", "torchrl", "ale"])
    parser.add_argument("--calls", type=int, default=2000, help="of each")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for task in parsed.task:
        for n in parsed.num_envs:
            setup = Case(task, n, parsed.num_threads)
            contenders, missing = make_all([POOL, *parsed.against], setup)
            seconds: dict[str, list[float]] = {name: [] for name in contenders}
            for contender in contenders.values():
                contender.seconds_of_each(20)
            for _ in range(10):
                for name, contender in contenders.items():
                    seconds[name] += contender.seconds_of_each(parsed.calls // 10)
            for contender in contenders.values():
                contender.close()
            for name, times in seconds.items():
                percentiles = statistics.quantiles(times, n=100, method="inclusive")
                p50, p99 = percentiles[49], percentiles[98]
                rows.append([task, str(n), name, *(f"{t * 1e6:,.0f}" for t in (p50, p99))])
                results.append({"task": task, "num_envs": n, "name": name, "p50": p50, "p99": p99})
            for name, why in missing.items():
                print(f"{task}, {n} envs: not measured: {name}: {why}")
    print(machine_line(), "\n\nµs for a step of all envs, random actions")
    print_table(["task", "envs", "", "p50", "p99"], rows, numbers=2)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
