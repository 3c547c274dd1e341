"""What all trainings have in common: their iterations, and what a checkpoint holds of them."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._collecting.added_entries import with_what_the_policy_reads
from torchrl_pool.examples.envs import make_env, normaliser_of
from torchrl_pool.examples.settings import Settings
from torchrl_pool.examples.training_run import (
    Clock,
    Curve,
    Row,
    first_line,
    load_checkpoint,
    save_checkpoint,
    warn,
    weights_in,
)

S = TypeVar("S", bound=Settings)


class Training(ABC, Generic[S]):
    """A training from its settings: :meth:`iterate` until :attr:`is_over`.

    Algorithms define :meth:`advance`, :meth:`state_dict`, :meth:`load_state_dict`, and what they own.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        frames_per_batch: env steps of an iteration.
        compile: whether updates are compiled.
    """

    actor: Callable[[TensorDictBase], TensorDictBase]
    env: EnvBase
    update: Any  # with an optimizer

    def __init__(self, config: S, folder: Path, frames_per_batch: int, *, compile: bool = False) -> None:
        self.config, self.compile = config, compile
        self.clock, self.curve = Clock(), Curve(folder)
        self.frames_per_batch = frames_per_batch
        self.num_iterations = math.ceil(config.total_frames / frames_per_batch)
        self.iteration, self.seconds = 0, 0.0
        self.ending: Literal["", "stopped", "diverged", "failed"] = ""  # how it has ended before its end
        self.was_stopped = False  # whether somebody has asked for that

    @property
    def frames(self) -> int:
        """Env steps until now."""
        return self.iteration * self.frames_per_batch

    @property
    def is_over(self) -> bool:
        return self.iteration >= self.num_iterations

    @property
    def is_finite(self) -> bool:
        """Whether all weights are numbers that can be gone on with."""
        return all(bool(one.isfinite().all()) for one in weights_in(self.networks()))

    def iterate(self) -> None:
        """Collects a batch, learns, and adds a row to the curve."""
        self.make_iteration()
        self.clock.end_iteration()

    def make_iteration(self) -> None:
        """What :meth:`iterate` does, as a part of an iteration of whoever owns the clock."""
        start = time.perf_counter()
        figures = self.advance()
        self.iteration += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        speed = {
            "frames": self.frames,
            "seconds": self.seconds,
            "steps_per_second": self.frames_per_batch / seconds,
        }
        with self.clock.timed("other"):
            self.curve.add({**speed, **figures})

    @abstractmethod
    def advance(self) -> Row:
        """An iteration; returns what its row of the curve tells of it, the same figures each time."""

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the training depends on: tensors, numbers, texts and bytes."""
        return {
            "config": asdict(self.config),
            "compile": self.compile,
            "threads": torch.get_num_threads(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "curve": self.curve.state_dict(),
            "generator": torch.get_rng_state(),
        }

    def networks(self) -> dict[str, Any]:
        """What has been learned, for a checkpoint that cannot hold all."""
        return {"update": self.update.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state; called last by those who extend it, for torch's generator goes back too."""
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.curve.load_state_dict(state["curve"])
        if self.config.learning_rate != state["config"]["learning_rate"]:  # else it may have been adapted
            self.set_learning_rate(self.config.learning_rate)
        torch.set_rng_state(state["generator"])

    def set_learning_rate(self, rate: float) -> None:
        """Sets that of the next update."""
        for group in self.update.optimizer.param_groups:
            group["lr"] = rate

    def evaluation_env(self, num_envs: int, *, films: bool = False) -> EnvBase:
        """An env of its own, that normalises with today's statistics and learns nothing."""
        normaliser = normaliser_of(self.env)
        frozen = None if normaliser is None else normaliser.frozen_copy()
        settings = replace(self.config, sign_rewards=False, episodic_life=False)
        env = make_env(settings, num_envs, self.config.seed + 1_000_000, frozen, films=films)
        return with_what_the_policy_reads(env, self.actor)

    def draw(self, folder: Path) -> None:
        """Draws what there is to see besides the curve."""

    def close(self) -> None:
        """Ends what runs."""
        self.curve.close()


def load_training(training: Training[Any], path: Path) -> None:
    """Goes on from a checkpoint; one of other networks or envs is a ``ValueError``."""
    state = load_checkpoint(path)
    if "not_whole" in state:
        raise ValueError(
            f"--resume: expected a checkpoint of simulators, too, got {path}: {state['not_whole']}"
        )
    try:
        training.load_state_dict(state)
        if not training.is_finite:
            raise ValueError("its weights are not finite")
    except (RuntimeError, ValueError, KeyError) as error:
        raise ValueError(f"--resume: expected settings that {path} can go on with: {error}") from error


def iterate_to_finite_weights(training: Training[Any]) -> bool:
    """Makes an iteration; returns whether there are weights to go on with.

    Where there are none, what they have let fail tells nothing more.
    """
    try:
        training.iterate()
    except Exception:
        if training.is_finite:
            raise
    return training.is_finite


def checkpoint_of(training: Training[Any]) -> dict[str, Any]:
    """All that a training goes on from, or what it has learned where simulators cannot be saved."""
    try:
        return training.state_dict()
    except NotImplementedError as error:
        return networks_of(training, first_line(error))


def networks_of(training: Training[Any], reason: str) -> dict[str, Any]:
    """What a training has learned, and why that is all."""
    return {"config": asdict(training.config), "not_whole": reason, **training.networks()}


@dataclass
class Checkpoint:
    """Where a training is saved.

    Args:
        path: of the file.
        last: the file from which this training can go on: what it came from, until it has been saved.
    """

    path: Path
    last: Path | None
    not_whole: str = ""  # why networks only are in the file

    def save(self, training: Training[Any]) -> bool:
        """Whether that was possible; if not, it has been said."""
        return self._save(checkpoint_of(training))

    def save_failed(self, training: Training[Any], reason: str) -> None:
        """Saves what was learned by a training whose envs have failed, unless there is a whole checkpoint."""
        is_there = self.last is not None and self.path.exists() and self.path.samefile(self.last)
        if self.not_whole or not is_there:
            self._save(networks_of(training, reason))

    def _save(self, state: dict[str, Any]) -> bool:
        try:
            save_checkpoint(self.path, state)
        except OSError as error:
            warn(str(error))
            return False
        self.last, self.not_whole = self.path, state.get("not_whole", "")
        return True
