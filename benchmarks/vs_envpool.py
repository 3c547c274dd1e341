"""Steps per second of ``PoolEnv.step_and_maybe_reset`` against EnvPool's bare NumPy ``step``, in one run.

EnvPool needs a virtual environment of its own: give its interpreter with ``--envpool-python``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from alternate import alternate, save
from peer_process import envpool
from stepping import Stepper, one_torch_thread, print_table

from torchrl_pool import PoolEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envpool-python", required=True)
    parser.add_argument("--task", default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    peer = envpool(parsed.envpool_python)
    rows, results = [], []
    for n in parsed.num_envs:
        times = alternate(
            {
                "torchrl_pool": Stepper(PoolEnv(parsed.task, n, num_threads=parsed.num_threads)),
                "envpool": lambda calls, n=n: peer.request(parsed.task, n, parsed.num_threads, calls),
            }
        )
        rates = {name: n / seconds.median for name, seconds in times.items()}
        ratio = rates["torchrl_pool"] / rates["envpool"]
        rows.append([n, *(f"{rates[name]:,.0f}" for name in times), f"{ratio:.1f}"])
        results.append({"task": parsed.task, "num_envs": n, "seconds_per_call": times, "ratio": ratio})
    print_table(["N", "torchrl_pool steps/s", "envpool steps/s", "ratio"], rows)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
