"""What trainings from a replay buffer share: batches come in, and each is followed by as many updates."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.envs.transforms import MultiStepTransform

from torchrl_pool import PoolCollector
from torchrl_pool.examples.actors import Actor, Synchronous, Threaded
from torchrl_pool.examples.envs import make_env
from torchrl_pool.examples.options import Settings, layer_sizes, option
from torchrl_pool.examples.results import Row
from torchrl_pool.examples.training import Training

Key = str | tuple[str, ...]
STORED: list[Key] = [
    "observation",
    "action",
    ("next", "observation"),
    ("next", "reward"),
    ("next", "terminated"),
]


class Replay:
    """The last transitions of all envs, in the order of their steps.

    TorchRL's buffers take a tensordict apart and index it at each ``extend``: a third of a millisecond, as
    long as a small network's update. Where each update follows a handful of steps, that is what counts.

    Args:
        capacity: how many.
        generator: of the indices.
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
        self.priorities = Priorities(capacity, alpha) if alpha else None
        self.stored: list[Key] = [*STORED, *(["steps_to_next_obs"] if self.multi_step else [])]
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
            self.priorities.begin(torch.arange(self._written, self._written + count) % self.capacity)
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
            return torch.randint(len(self), (count,), generator=self.generator), None
        return self.priorities.sample(len(self), count, beta, self.generator)

    def state_dict(self) -> dict[str, Any]:
        """Where it goes on from."""
        if not self._saves_rows or not self.seen:
            return {"seen": 0}
        begun = None if self.multi_step is None else self.multi_step._buffer
        return {
            "seen": self.seen,
            "rows": self.rows[: len(self)].clone().to_dict() if len(self) else {},
            "written": self._written,
            "begun": None if begun is None else (list(begun.shape), begun.clone().to_dict()),
            "priorities": None if self.priorities is None else self.priorities.values[: len(self)].clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned, in a buffer that is empty yet."""
        self.seen = state["seen"]
        if not self.seen:
            return
        rows = TensorDict(state["rows"])
        if state["written"]:
            count = len(rows.get("action"))
            if count != self.capacity and (count < state["written"] or count > self.capacity):
                raise ValueError(f"--buffer-size: expected {count}, as the buffer was, got {self.capacity}")
            self._write({key: rows.get(key) for key in self.stored})
            self._written = state["written"]
        if self.multi_step is not None and state["begun"] is not None:
            shape, begun = state["begun"]
            self.multi_step._buffer = TensorDict.from_dict(begun, batch_size=shape)
        if self.priorities is not None:
            self.priorities.values[: len(self)] = state["priorities"]


class Priorities:
    """Proportional prioritized replay (Schaul et al. 2016) as one tensor, searched in its running sum.

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


@dataclass(frozen=True)
class OffPolicySettings(Settings):
    """Settings of all programs that learn from a replay buffer."""

    total_frames: int = option(
        1_000_000, "env steps to train for, rounded up to whole --frames-per-row", least=1
    )
    frames_per_batch: int = option(
        1, "env steps of all envs between two rounds of updates", least=1, kept=True
    )
    updates_per_batch: int = option(1, "updates after each batch, however fast envs and updates are", least=1)
    parallel: bool = option(False, "collect a batch, with the weights from before, while learning", kept=True)
    learning_starts: int = option(100, "env steps before the first update", least=0)
    batch_size: int = option(256, "transitions that an update learns from", least=1)
    buffer_size: int = option(1_000_000, "transitions that are kept", least=1)
    save_replay: bool = option(
        True, "keep them in checkpoints, too; without them a resume fills a new buffer"
    )
    learning_rate: float = option(3e-4, "Adam's", least=0)
    gamma: float = option(0.99, "discount", least=0, most=1)
    n_steps: int = option(
        1, "rewards that are added up before a value stands for the rest", least=1, kept=True
    )
    tau: float = option(1.0, "how far targets go towards their networks at a time", above=0, most=1)
    target_every: int = option(1, "updates between two steps of the targets", least=1)
    priority_alpha: float = option(
        0.0, "errors to this power are priorities; 0: all transitions are equal", least=0, kept=True
    )
    priority_beta: float = option(
        0.4,
        "how far weights make up for priorities, at the start; 1 at the end",
        least=0,
        most=1,
        needs="priority_alpha",
    )
    hidden: str = option("256,256", "units of the hidden layers of each network", kept=True, metavar="64,64")
    frames_per_row: int = option(
        1000, "env steps that a row of the learning curve tells of", least=1, kept=True
    )

    @property
    def frames_per_round(self) -> int:
        """Env steps of a batch: as many of each env."""
        return math.ceil(self.frames_per_batch / self.num_envs) * self.num_envs

    @property
    def num_updates(self) -> int:
        left = max(0, self.total_frames - self.learning_starts)
        return math.ceil(left / self.frames_per_round) * self.updates_per_batch

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        if self.learning_starts >= self.total_frames:
            raise ValueError(
                f"--learning-starts: expected less than the {self.total_frames} of --total-frames, "
                f"got {self.learning_starts}"
            )
        if self.buffer_size < self.frames_per_round:
            raise ValueError(
                f"--buffer-size: expected at least the {self.frames_per_round} steps of a batch, "
                f"got {self.buffer_size}"
            )


C = TypeVar("C", bound=OffPolicySettings)


class OffPolicyTraining(Training[C]):
    """Collects a batch, puts it into a replay buffer, makes some updates from there, and again.

    Algorithms define :meth:`build` and :meth:`learn`.
    """

    update: Any
    random_frames = 0  # env steps whose actions are drawn from the action space

    def __init__(self, config: C, folder: Path, *, compile: bool = False) -> None:
        self.rounds = math.ceil(config.frames_per_row / config.frames_per_round)
        super().__init__(config, folder, self.rounds * config.frames_per_round, compile=compile)
        torch.manual_seed(config.seed)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.env = make_env(config, config.num_envs, config.seed)
        policy = self.build()
        self.replay = Replay(
            config.buffer_size,
            self.generator,
            n_steps=config.n_steps,
            gamma=config.gamma,
            alpha=config.priority_alpha,
            saves_rows=config.save_replay,
        )
        acting = copy.deepcopy(policy) if config.parallel else policy
        collector = PoolCollector(
            self.env,
            acting,
            frames_per_batch=config.frames_per_round,
            total_frames=-1,
            init_random_frames=self.random_frames or None,
            track_policy_version=config.parallel,
            post_collect_hook=lambda batch: self.after_batch(acting),
        )
        self.actors = (
            Threaded([Actor(collector, acting)], policy, 1, exact=True)
            if config.parallel
            else Synchronous(collector, policy)
        )
        self.columns: list[torch.Tensor] = []
        self.losses = dict.fromkeys(self.update.names, math.nan)
        if not config.parallel:  # else envs step while the learner learns
            self.time_steps()

    @abstractmethod
    def build(self) -> nn.Module:
        """Makes :attr:`actor` and :attr:`update`; returns the policy that explores."""

    def after_batch(self, acting: nn.Module) -> None:
        """Is called with the policy that explores, when it has collected a batch."""
        del acting

    def advance(self) -> Row:
        """As many batches as a row tells of, each with its updates."""
        losses: dict[str, torch.Tensor] = {}
        for _ in range(self.rounds):
            with self.clock.timed("collecting"):
                batch = self.actors.next(self.update.count)
            with self.clock.timed("other"):
                self.take_note(batch)
                self.replay.extend(batch)
            with self.clock.timed("training"):
                losses = self._learn() or losses
        if losses:
            self.losses = {name: losses[name].item() for name in self.update.names}
        return {"buffer": len(self.replay), **self.losses}

    def _learn(self) -> dict[str, torch.Tensor] | None:
        config, replay = self.config, self.replay
        if replay.seen <= config.learning_starts or not len(replay):
            return None
        if not self.columns:  # the storage stays where it is
            self.columns = self.update.columns(replay.rows)
        done = min(self.iteration / self.num_iterations, 1.0)
        beta = config.priority_beta + (1 - config.priority_beta) * done
        losses: dict[str, torch.Tensor] = {}
        for _ in range(config.updates_per_batch):
            indices, weights = replay.sample(config.batch_size, beta)
            losses = self.update(self.columns, indices, weights)
            if replay.priorities is not None:
                replay.priorities.update(indices, self.errors_of(losses))
        return losses

    def errors_of(self, losses: dict[str, torch.Tensor]) -> torch.Tensor:
        """What priorities are powers of, of each transition that an update has learned from."""
        return losses["td_error"]

    def parts(self) -> dict[str, Any]:
        return {**super().parts(), "replay": self.replay}

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()  # first: what is being collected is waited for
        return {**state, "learner": self.generator.get_state(), "losses": self.losses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["learner"])
        self.losses = dict(state["losses"])
        super().load_state_dict(state)
