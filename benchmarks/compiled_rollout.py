"""A rollout that torch.compile makes one graph of, the pool's steps included, beside the same calls without.

CartPole-v1, an MLP with two hidden layers, greedy actions. Both sides take turns; their data is compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from throughput import alternate, machine_line, one_torch_thread, save
from torch._dynamo.utils import counters
from torchrl.envs import EnvBase
from torchrl.modules import MLP

from torchrl_pool import PoolEnv
from torchrl_pool._tables import print_table

Rollout = Callable[[EnvBase, TensorDictBase, int], tuple[TensorDictBase, TensorDictBase]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    network = MLP(4, 2, num_cells=[64, 64], activation_class=torch.nn.Tanh)
    policy = TensorDictSequential(
        TensorDictModule(network, ["observation"], ["logits"]),
        TensorDictModule(lambda logits: logits.argmax(-1), ["logits"], ["action"]),
    )

    def rollout(env: EnvBase, root: TensorDictBase, steps: int) -> tuple[TensorDictBase, TensorDictBase]:
        made = []
        for _ in range(steps):
            step, root = env.step_and_maybe_reset(policy(root))
            made.append(step)
        return torch.stack(made), root

    class Side:
        def __init__(self, call: Rollout) -> None:
            self.call = call
            self.env = PoolEnv("CartPole-v1", parsed.num_envs, seed=0, categorical_action_encoding=True)
            self.root: Any = policy(self.env.reset())
            self.data: Any = None

        def __call__(self, calls: int) -> None:
            for _ in range(calls):
                self.data, self.root = self.call(self.env, self.root, parsed.steps)

    with torch.no_grad():
        compiled = torch.compile(rollout, fullgraph=True)
        sides = {"one graph": Side(compiled), "eager": Side(rollout)}
        for side in sides.values():
            side(1)
        first, second = (side.data for side in sides.values())
        same = all(
            torch.equal(first[key], second[key]) for key in ("action", "observation", ("next", "done"))
        )
        times = alternate(sides, round_seconds=0.2, rounds=parsed.rounds)
    ours = times["one graph"].median
    rows = [
        [name, f"{t.median / parsed.steps * 1e6:.0f}", f"{t.median / ours:.2f}", f"{t.spread:.0%}"]
        for name, t in times.items()
    ]
    graphs = counters["stats"]["unique_graphs"]
    settings = f"{parsed.num_envs} envs, {parsed.steps} steps, {graphs} graphs, same data: {same}"
    print(f"{machine_line()}\n\n{settings}")
    print_table(["", "us a step", "times", "spread"], rows, numbers=3)
    save(parsed.json, [{"seconds_per_rollout": times, "graphs": graphs, "same": same}])


if __name__ == "__main__":
    main()
