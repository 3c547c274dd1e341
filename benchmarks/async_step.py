"""Steps per second of envs in flight: ``async_step_and_maybe_reset`` against EnvPool's ``send`` and ``recv``.

Both receive ``--batch-size`` of ``--num-envs`` envs at a time and send them again. The same pool's
synchronous step stands beside them. EnvPool needs a virtual environment of its own: give its interpreter with
``--envpool-python``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from alternate import alternate, save
from peer_process import PEERS, PeerProcess
from stepping import Stepper, one_torch_thread, print_table

from torchrl_pool import PoolEnv

_STOCK = 64


class AsyncStepper:
    """Receives a batch and sends it again, as a collector with a free policy would."""

    def __init__(self, env: PoolEnv, batch_size: int) -> None:
        self.env, self.batch_size = env, batch_size
        self.actions = [env.rand_action()["action"][:batch_size].clone() for _ in range(_STOCK)]
        env.async_reset_send()
        root = env.async_reset_recv(env.num_envs)
        env.async_step_and_maybe_reset_send(root.set("action", env.rand_action()["action"]))

    def __call__(self, calls: int) -> None:
        env, size = self.env, self.batch_size
        for i in range(calls):
            _, root = env.async_step_and_maybe_reset_recv(size, max_get=size)
            root._set_str("action", self.actions[i % _STOCK], inplace=False, validated=True)
            env.async_step_and_maybe_reset_send(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envpool-python", required=True)
    parser.add_argument("--task", nargs="+", default=["HalfCheetah-v5", "CartPole-v1"])
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    n, m, threads = parsed.num_envs, parsed.batch_size, parsed.num_threads
    rows, results = [], []
    for task in parsed.task:
        peer = PeerProcess([parsed.envpool_python, str(PEERS / "envpool_async.py")])
        contenders = {
            "torchrl_pool async": AsyncStepper(PoolEnv(task, n, num_threads=threads), m),
            "envpool async": lambda calls, peer=peer, task=task: peer.request(task, n, m, threads, calls),
            "torchrl_pool sync": Stepper(PoolEnv(task, n, num_threads=threads)),
        }
        sizes = {"torchrl_pool async": m, "envpool async": m, "torchrl_pool sync": n}
        times = alternate(contenders, round_seconds=0.2, rounds=parsed.rounds)
        rates = {name: sizes[name] / seconds.median for name, seconds in times.items()}
        ratios = {name: rates["torchrl_pool async"] / rate for name, rate in rates.items()}
        rows += [[task, name, f"{rates[name]:,.0f}", f"{ratios[name]:.2f}"] for name in contenders]
        results.append(
            {"task": task, "num_envs": n, "batch_size": m, "seconds_per_call": times, "ratios": ratios}
        )
    print_table(["task", "", "steps/s", "torchrl_pool async is faster by"], rows)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
