"""Steps per second by number of envs and threads: is there a cliff anywhere?"""

from __future__ import annotations

import argparse
from pathlib import Path

from alternate import alternate, save
from stepping import Stepper, one_torch_thread, print_table

from torchrl_pool import PoolEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[2**k for k in range(14)])
    parser.add_argument("--num-threads", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results, worst = [], [], 1.0
    for n in parsed.num_envs:
        times = alternate(
            {str(t): Stepper(PoolEnv(parsed.task, n, num_threads=t)) for t in parsed.num_threads}
        )
        single = times[str(parsed.num_threads[0])].median
        worst = min([worst, *(single / seconds.median for seconds in times.values())])
        rows.append([n, *(f"{n / s.median:,.0f} ({single / s.median:.2f})" for s in times.values())])
        results.append({"num_envs": n, "seconds_per_call_by_threads": times})
    print_table(["N", *(f"{t} threads" for t in parsed.num_threads)], rows)
    print(f"steps/s (relative to {parsed.num_threads[0]} thread); worst cell: {worst:.2f}")
    save(parsed.json, {"task": parsed.task, "cells": results, "worst": worst})


if __name__ == "__main__":
    main()
