"""A step whose outputs go to two places: to a rollout's batch, and to the transforms that TorchRL runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain import Chain


@dataclass
class StepIntoBatch:
    """A step of all envs that writes to a batch what TorchRL's transforms get besides."""

    rows: _core.RolloutRows
    step: int
    sources: list[int]  # what is recorded
    owner: object
    # Once it is made, the tensors that the transforms have got; none: it went TorchRL's way.
    given: dict[Key, torch.Tensor] | None = None

    def step_envs(
        self,
        pool: _core.Pool,
        chain: Chain,
        actions: list[int],
        addresses: list[int],
        owner: object,
    ) -> None:
        """Has the executor write to the batch, and to tensors whose addresses are those of the columns."""
        owners = owner, self.owner
        pool.step_into(
            self.rows, self.step, actions, addresses, self.sources, owners, chain.core, resets=False
        )
