"""What DQN and SAC share: a replay buffer that costs little where updates are small; returns of its rows."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs.transforms import MultiStepTransform

from torchrl_pool.examples.actors import restore

Key = str | tuple[str, ...]
STORED: list[Key] = [
    "observation",
    "action",
    ("next", "observation"),
    ("next", "reward"),
    ("next", "terminated"),
]
Rows = dict[Key, torch.Tensor]
"""A minibatch of transitions, as a loss gets it."""


def stored_keys(n_steps: int) -> list[Key]:
    """What is kept of each step."""
    return [*STORED, *(["steps_to_next_obs"] if n_steps > 1 else [])]


class Replay:
    """The last transitions of all envs, in the order of their steps.

    TorchRL's buffers take a tensordict apart and index it at each ``extend``: a third of a millisecond, as
    long as a small network's update. Where each update follows a handful of steps, that is what counts.

    Args:
        capacity: how many.
        generator: of the indices, on the device of the batches.
        n_steps: rewards that are added up in a transition, across batches.
        gamma: the discount of these.
        alpha: priorities are errors to this power; 0: all transitions are equal.
        saves_rows: whether they are part of its state; else a resumed training fills a new buffer.
    """

    def __init__(
        self,
        capacity: int,
        generator: torch.Generator,
        *,
        n_steps: int,
        gamma: float,
        alpha: float,
        saves_rows: bool = True,
    ) -> None:
        self.capacity, self.generator, self.seen, self._saves_rows = capacity, generator, 0, saves_rows
        # What is no done key comes from the last step of a transition: its flag of termination must, too.
        self.multi_step = MultiStepTransform(n_steps, gamma, done_keys=["done"]) if n_steps > 1 else None
        self.priorities = Priorities(capacity, alpha, generator.device) if alpha else None
        self.stored = stored_keys(n_steps)
        self.columns: dict[Key, torch.Tensor] = {}
        self._written = 0  # rows, of which the last ones are there

    def extend(self, batch: TensorDictBase) -> None:
        """Takes in a batch ``[N, T]``."""
        self.seen += batch.numel()
        if self.multi_step is not None:
            needed = [*STORED, ("next", "done")]
            batch = self.multi_step.inv(batch.select(*needed))
            if batch is None or not batch.numel():
                return
        self._write({key: batch.get(key).transpose(0, 1).flatten(0, 1) for key in self.stored})

    def _write(self, rows: dict[Key, torch.Tensor]) -> None:
        if not self.columns:
            self.columns = {key: new.new_empty(self.capacity, *new.shape[1:]) for key, new in rows.items()}
        count, place = len(rows["action"]), self._written % self.capacity
        begun = min(count, self.capacity - place)  # rows to the end; the rest goes to the beginning
        for key, new in rows.items():
            self.columns[key][place : place + begun] = new[:begun]
            self.columns[key][: count - begun] = new[begun:]
        if self.priorities is not None:
            new = torch.arange(self._written, self._written + count, device=self.generator.device)
            self.priorities.begin(new % self.capacity)
        self._written += count

    def __len__(self) -> int:
        return min(self._written, self.capacity)

    @property
    def rows(self) -> TensorDict:
        """All that there is room for: the columns themselves."""
        return TensorDict(self.columns, batch_size=[self.capacity])

    def sample(self, count: int, beta: float) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Indices ``[count]``, and their weights where there are priorities."""
        if self.priorities is None:
            size, device = (count,), self.generator.device
            return torch.randint(len(self), size, generator=self.generator, device=device), None
        return self.priorities.sample(len(self), count, beta, self.generator)

    def to(
        self, device: torch.device, columns: list[torch.Tensor], indices: torch.Tensor
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Columns and indices for an update on a device: copies of the rows where they lie elsewhere."""
        if indices.device == device:
            return columns, indices
        rows = [column.index_select(0, indices).to(device) for column in columns]
        return rows, torch.arange(len(indices), device=device)

    def state_dict(self) -> dict[str, Any]:
        """Where it goes on from."""
        generator = self.generator.get_state()
        if not self._saves_rows or not self.seen:
            return {"seen": 0, "generator": generator}
        begun = None if self.multi_step is None else self.multi_step._buffer
        return {
            "seen": self.seen,
            "generator": generator,
            "rows": self.rows[: len(self)].clone().to_dict() if len(self) else {},
            "written": self._written,
            "begun": None if begun is None else (list(begun.shape), begun.clone().to_dict()),
            "priorities": None if self.priorities is None else self.priorities.values[: len(self)].clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned, in a buffer that is empty yet."""
        self.seen = state["seen"]
        restore(self.generator, state["generator"])
        if not self.seen:
            return
        rows = TensorDict(state["rows"])
        if state["written"]:
            count = len(rows.get("action"))
            if count != self.capacity and (count < state["written"] or count > self.capacity):
                raise ValueError(f"--buffer-size: expected {count}, as the buffer was, got {self.capacity}")
            self._write({key: rows.get(key).to(self.generator.device) for key in self.stored})
            self._written = state["written"]
        if self.multi_step is not None and state["begun"] is not None:
            shape, begun = state["begun"]
            begun = TensorDict.from_dict(begun, batch_size=shape)
            self.multi_step._buffer = begun.to(self.generator.device)
        if self.priorities is not None:
            self.priorities.values[: len(self)] = state["priorities"]


class Priorities:
    """Proportional prioritized replay (Schaul et al. 2016) as one tensor, searched in its running sum.

    A sample costs a pass over the priorities, a millisecond for a million of them. TorchRL's sampler has
    trees, in C++ that loads with the torch that it was built with only.

    Args:
        capacity: how many transitions there can be.
        alpha: the power.
        device: of the transitions.
    """

    def __init__(self, capacity: int, alpha: float, device: torch.device) -> None:
        self.values = torch.zeros(capacity, device=device)
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
        drawn = torch.rand(count, generator=generator, dtype=torch.float64, device=sums.device)
        mass = drawn * sums[-1]
        indices = torch.searchsorted(sums, mass, right=True).clamp_max(length - 1)
        return indices, (values[indices] / values.min()) ** -beta

    def update(self, indices: torch.Tensor, errors: torch.Tensor) -> None:
        """Learns what the errors of transitions are now."""
        self.values[indices] = ((errors + 1e-8) ** self.alpha).to(self.values.device)


def one_step_return(rows: Rows, gamma: float, value: torch.Tensor) -> torch.Tensor:
    """Rewards, and the value of what follows where the episode was not terminated.

    Where rows tell how many steps they span (``"steps_to_next_obs"``), that value is discounted for each.
    """
    steps = rows.get("steps_to_next_obs")
    discount = gamma if steps is None else gamma ** steps.reshape(-1)
    going_on = ~rows["next", "terminated"].reshape(-1)
    return rows["next", "reward"].reshape(-1) + discount * going_on * value


def weighted_mean(values: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """The mean over rows, as TorchRL's losses weigh them."""
    return values.mean() if weights is None else (values * weights).sum() / weights.sum()
