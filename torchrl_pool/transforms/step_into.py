"""A step whose outputs go to two places: to a rollout's batch, and to the transforms that TorchRL runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from torchrl_pool import _core
from torchrl_pool.env.specs import Key
from torchrl_pool.transforms.chain import Chain


@dataclass
class StepIntoBatch:
    """A step of all envs that writes to a batch what TorchRL's transforms get besides."""

    layout: _core.RolloutLayout
    outputs: Callable[[dict[Key, torch.Tensor]], list[int]]  # where the batch has those of these tensors
    sources: list[int]  # what is recorded ...
    targets: list[int]  # ... and where
    owner: object
    # Once it is made, the tensors that the transforms have got; none: it went TorchRL's way.
    given: dict[Key, torch.Tensor] | None = None

    def step_envs(
        self,
        pool: _core.Pool,
        chain: Chain,
        actions: list[int],
        tensors: dict[Key, torch.Tensor],
        addresses: list[int],
        owner: object,
    ) -> None:
        """Has the executor write to the batch, and to these tensors, whose addresses are those of columns."""
        columns = [0] * chain.num_columns
        chain.hidden.out_addresses(columns)
        pool.step_into(
            self.layout,
            actions,
            chain.spread(self.outputs(tensors), columns),
            addresses,
            self.sources,
            self.targets,
            (owner, self.owner),
            chain.core,
            resets=False,
        )
