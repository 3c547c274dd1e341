"""What trainings from a replay buffer depend on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torchrl_pool.examples.settings import Settings, layer_sizes, option


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
    hidden: str = option("256,256", "units of the hidden layers of each network", kept=True)
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
