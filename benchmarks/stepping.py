"""What the benchmarks step: an env with its root and a stock of random actions."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

_STOCK = 64


class Stepper:
    """Calls ``step_and_maybe_reset`` again and again, as a collector with a free policy would."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase = env.reset()
        self.actions = [env.rand_action()["action"] for _ in range(_STOCK)]
        self.position = 0

    def __call__(self, calls: int) -> None:
        env, root, actions = self.env, self.root, self.actions
        for i in range(self.position, self.position + calls):
            # As cheaply as tensordict allows: what the policy does is not measured here.
            root._set_str("action", actions[i % _STOCK], inplace=False, validated=True)
            _, root = env.step_and_maybe_reset(root)
        self.root = root
        self.position += calls


def one_torch_thread() -> None:
    """The benchmarks measure envs, not torch's own thread pool."""
    torch.set_num_threads(1)


def print_table(header: list[str], rows: list[list[Any]]) -> None:
    table = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
