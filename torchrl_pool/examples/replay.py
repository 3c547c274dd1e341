"""A replay buffer of TorchRL whose columns are sampled as tensors: uniformly, or by priorities."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs.transforms import MultiStepTransform

Key = str | tuple[str, ...]
STORED: list[Key] = [
    "observation",
    "action",
    ("next", "observation"),
    ("next", "reward"),
    ("next", "terminated"),
]


class Replay:
    """The last transitions of all envs.

    Args:
        capacity: how many.
        generator: of the indices.
        n_steps: rewards that are added up in a transition, across batches.
        gamma: the discount of these.
        alpha: priorities are errors to this power; 0: all transitions are equal.
    """

    def __init__(
        self, capacity: int, generator: torch.Generator, *, n_steps: int, gamma: float, alpha: float
    ) -> None:
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity))
        self.generator, self.seen = generator, 0
        # What is no done key comes from the last step of a transition: its flag of termination must, too.
        self.multi_step = MultiStepTransform(n_steps, gamma, done_keys=["done"]) if n_steps > 1 else None
        self.priorities = Priorities(capacity, alpha) if alpha else None
        self.stored: list[Key] = [*STORED, *(["steps_to_next_obs"] if self.multi_step else [])]

    def extend(self, batch: TensorDictBase) -> None:
        """Takes in a batch ``[N, T]``."""
        self.seen += batch.numel()
        if self.multi_step is not None:
            needed = [*STORED, ("next", "done")]
            batch = self.multi_step.inv(batch.select(*needed))
            if batch is None or not batch.numel():
                return
        indices = self.buffer.extend(batch.select(*self.stored).transpose(0, 1).reshape(-1))
        if self.priorities is not None:
            self.priorities.begin(indices)

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def rows(self) -> TensorDictBase:
        """All that there is room for: the storage itself."""
        rows: TensorDictBase = self.buffer._storage._storage
        return rows

    def sample(self, count: int, beta: float) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Indices ``[count]``, and their weights where there are priorities."""
        if self.priorities is None:
            return torch.randint(len(self), (count,), generator=self.generator), None
        return self.priorities.sample(len(self), count, beta, self.generator)

    def state_dict(self, *, with_rows: bool) -> dict[str, Any]:
        """Where it goes on from; the rows only if asked for."""
        if not with_rows or not len(self):
            return {"seen": 0}
        begun = None if self.multi_step is None else self.multi_step._buffer
        return {
            "seen": self.seen,
            "rows": self.rows[: len(self)].clone().to_dict(),
            "cursor": self.buffer._writer.state_dict(),
            "begun": None if begun is None else (list(begun.shape), begun.clone().to_dict()),
            "priorities": None if self.priorities is None else self.priorities.values.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned, in a buffer that is empty yet."""
        self.seen = state["seen"]
        if not self.seen:
            return
        count = len(state["rows"]["action"])
        self.buffer.extend(TensorDict.from_dict(state["rows"], batch_size=[count]))
        self.buffer._writer.load_state_dict(state["cursor"])
        if self.multi_step is not None and state["begun"] is not None:
            shape, begun = state["begun"]
            self.multi_step._buffer = TensorDict.from_dict(begun, batch_size=shape)
        if self.priorities is not None:
            self.priorities.values.copy_(state["priorities"])


class Priorities:
    """Proportional prioritised replay (Schaul et al. 2016) as one tensor, searched in its running sum.

    A sample costs a pass over the priorities, a millisecond for a million of them. TorchRL's sampler has
    trees, in C++ that loads with the torch that it was built with only.

    Args:
        capacity: how many transitions there can be.
        alpha: the power.
    """

    def __init__(self, capacity: int, alpha: float) -> None:
        self.values = torch.zeros(capacity)
        self.alpha = alpha

    def begin(self, indices: torch.Tensor) -> None:
        """New transitions have the largest priority, so that each is seen."""
        largest = self.values.max()
        self.values[indices] = torch.where(largest > 0, largest, torch.ones_like(largest))

    def sample(
        self, length: int, count: int, beta: float, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices and weights, the largest of all transitions 1."""
        values = self.values[:length]
        sums = values.cumsum(0, dtype=torch.float64)
        mass = torch.rand(count, generator=generator, dtype=torch.float64) * sums[-1]
        indices = torch.searchsorted(sums, mass, right=True).clamp_max(length - 1)
        return indices, (values[indices] / values.min()) ** -beta

    def update(self, indices: torch.Tensor, errors: torch.Tensor) -> None:
        """Learns what the errors of transitions are now."""
        self.values[indices] = (errors + 1e-8) ** self.alpha
