"""Steps per second, async against sync, where few steps take very long: what EnvPool's figure 2 draws.

A sync step takes as long as its slowest env. Async receives those that are ready and sends them again. Steps
sleep for Pareto-distributed times, and each env has a thread, so that nothing but the order of things counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contenders import STOCK, Stepper
from tensordict import TensorDictBase
from throughput import alternate, machine_line, one_torch_thread, save

from torchrl_pool import PoolEnv, build_plugin
from torchrl_pool._tables import print_table

TASK = "HeavyTail-v0"


class AsyncStepper:
    """Receives a batch of the envs in flight and sends it again.

    Between two runs nothing is in flight: it would take the processors from the contender whose turn it is.
    """

    def __init__(self, env: PoolEnv, batch_size: int) -> None:
        self.env, self.batch_size = env, batch_size
        self.actions = [env.rand_action()["action"][:batch_size].clone() for _ in range(STOCK)]
        env.async_reset_send()
        num_batches = env.num_envs // batch_size
        self.idle = [env.async_reset_recv(batch_size, max_get=batch_size) for _ in range(num_batches)]

    def __call__(self, calls: int) -> None:
        env, idle, in_flight = self.env, self.idle, 0
        for i in range(calls):
            if idle:
                root = idle.pop()
                in_flight += 1
            else:
                root = self._receive()
            root._set_str("action", self.actions[i % STOCK], inplace=False, validated=True)
            env.async_step_and_maybe_reset_send(root)
        idle += [self._receive() for _ in range(in_flight)]

    def _receive(self) -> TensorDictBase:
        size = self.batch_size
        root: TensorDictBase = self.env.async_step_and_maybe_reset_recv(size, max_get=size)[1]
        return root


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[32, 16, 8, 4])
    parser.add_argument("--mean-ms", type=float, default=1.0)
    parser.add_argument("--shape", type=float, nargs="+", default=[1.2, 1.5, 2.5])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    build_plugin(Path(__file__).parent / "heavy_tail.cc")
    n = parsed.num_envs
    rows, results = [], []
    for shape in parsed.shape:

        def make(shape: float = shape) -> PoolEnv:
            return PoolEnv(TASK, n, num_threads=n, seed=0, mean_ms=parsed.mean_ms, shape=shape)

        contenders = {"sync": Stepper(make())}
        contenders |= {f"async {m}": AsyncStepper(make(), m) for m in parsed.batch_size}
        sizes = {"sync": n, **{f"async {m}": m for m in parsed.batch_size}}
        times = alternate(contenders, round_seconds=0.5, rounds=parsed.rounds)
        rates = {name: sizes[name] / seconds.median for name, seconds in times.items()}
        rows += [
            [f"{shape:g}", name, f"{rate:,.0f}", f"{rate / rates['sync']:.2f}"]
            for name, rate in rates.items()
        ]
        results.append({"shape": shape, "num_envs": n, "seconds_per_call": times, "steps_per_second": rates})
        for contender in contenders.values():
            contender.env.close()
    print(
        f"{machine_line()}\n\n{n} envs whose steps sleep {parsed.mean_ms:g} ms on average, Pareto-distributed"
    )
    print_table(["exponent", "", "steps/s", "over sync"], rows, numbers=2)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
