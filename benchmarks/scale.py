"""How well threads are used: a model of a vector step, beside what is measured.

What goes into the model is measured on one thread and on two: the cost of an env, of a call, of the way to
another thread. Its predictions are checked with as many threads as there are processors, and beyond that with
envs that sleep.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from contenders import Stepper
from throughput import alternate, machine_line, one_torch_thread, save

from torchrl_pool import PoolEnv, load_plugin
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._tables import print_table

SERIAL_PER_ENV = 1e-9  # checks and marks on the calling thread: 3 instructions (callgrind)
CHUNK = 5e-6  # that a thread takes at a time: the core's cost model
ASLEEP = 65e-6  # to wake a thread, and until it runs
NOTIFY = 1e-7, 2e-6  # one thread more, while it spins; while it is parked
THREADS = (2, 16, 64, 256)


class Model(NamedTuple):
    """Seconds of a vector step.

    Args:
        call: what a call costs that has next to nothing to do.
        handoff: from the caller to another thread.
        notify: to tell one more thread.
    """

    call: float
    handoff: float
    notify: float

    def seconds(self, threads: int, num_envs: int, cost: float) -> float:
        serial = self.call + num_envs * SERIAL_PER_ENV
        tail = max(CHUNK, cost) / 2 if threads > 1 and num_envs % threads else 0.0
        others = self.handoff + threads * self.notify if threads > 1 else 0.0
        return serial + others + math.ceil(num_envs / threads) * cost + tail

    def efficiency(self, threads: int, num_envs: int, cost: float) -> float:
        """Of ``threads`` bare loops."""
        return num_envs * cost / threads / self.seconds(threads, num_envs, cost)


def steps(num_envs: int, threads: int, **options: Any) -> Stepper:
    """Steps of a pool of envs that take a known time."""
    options |= {"categorical_action_encoding": True}
    return Stepper(PoolEnv("Timed-v0", num_envs, num_threads=threads, **options))


def seconds_of(rounds: int, **sides: Stepper) -> dict[str, float]:
    """Each side's seconds a call, in turn."""
    times = alternate(sides, rounds=rounds)
    for side in sides.values():
        side.env.close()
    return {name: one.median for name, one in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-envs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    load_plugin(compile_plugin(Path(__file__).with_suffix(".cc")))
    n, cpus = parsed.num_envs, len(os.sched_getaffinity(0))
    found = seconds_of(
        parsed.rounds, call=steps(2, 1), one=steps(1, 1, compute_ns=1e5), two=steps(2, 2, compute_ns=1e5)
    )
    model = Model(found["call"], max(found["two"] - found["one"], 0.0), NOTIFY[0])
    print(machine_line())
    print(f"a call {model.call * 1e6:.1f} us, to another thread {model.handoff * 1e6:.1f} us, {n:,} envs")
    rows, results = [], []
    for name, compute in (("0", 0), ("1 us", 1e3), ("20 us", 2e4)):
        few = n if compute < 1e4 else n // 10
        times = seconds_of(
            parsed.rounds, one=steps(few, 1, compute_ns=compute), all=steps(few, cpus, compute_ns=compute)
        )
        cost = (times["one"] - model.call) / few
        measured = times["one"] / cpus / times["all"]
        predicted = [f"{model.efficiency(k, n, cost):.2f}" for k in THREADS]
        of_one = model.seconds(1, few, cost) / cpus / model.seconds(cpus, few, cost)
        rows.append([name, f"{cost * 1e9:,.0f} ns", *predicted, f"{of_one:.2f}", f"{measured:.2f}"])
        results.append({"seconds": cost, "threads": cpus, "predicted": of_one, "measured": measured})
    heads = [*(f"{k} threads" for k in THREADS), f"{cpus}, of one: predicted", "measured"]
    print_table(["a step computes", "takes", *heads], rows, numbers=7)
    results += print_sleepers(Model(model.call, ASLEEP, NOTIFY[1]), cpus, max(parsed.rounds // 3, 3))
    save(parsed.json, results)


def print_sleepers(model: Model, cpus: int, rounds: int) -> list[dict[str, float]]:
    """Envs that sleep. Woken up all at once, they queue for the processors; after that they are apart."""
    busy = processor_seconds(steps(64, 16, sleep_us=5e3)) / 64
    results = []
    for k in (16, 64, 256):
        times = seconds_of(rounds, one=steps(1, 1, sleep_us=5e3), all=steps(4 * k, k, sleep_us=5e3))
        whole = model.seconds(k, 4 * k, times["one"]) + k * busy / cpus
        predicted, measured = 4 * times["one"] / whole, 4 * times["one"] / times["all"]
        results.append({"seconds": times["one"], "threads": k, "predicted": predicted, "measured": measured})
    print("\nenvs that sleep for 5 ms, four for each thread")
    rows = [[str(one["threads"]), f"{one['predicted']:.2f}", f"{one['measured']:.2f}"] for one in results]
    print_table(["threads", "predicted", "measured"], rows, numbers=3)
    return results


def processor_seconds(side: Stepper, calls: int = 20) -> float:
    """Of a call, of all threads together."""
    side(2)
    begin = time.process_time()
    side(calls)
    seconds = (time.process_time() - begin) / calls
    side.env.close()
    return seconds


if __name__ == "__main__":
    main()
