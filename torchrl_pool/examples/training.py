"""What all trainings have in common: their iterations, what a checkpoint holds of them, their evaluation."""

from __future__ import annotations

import copy
import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase, InitTracker
from torchrl.modules import get_primers_from_module

from torchrl_pool.examples.envs import make_env, normalizer_of, pool_of
from torchrl_pool.examples.options import Settings
from torchrl_pool.examples.results import Clock, Curve, Row, weights_in
from torchrl_pool.training import time_steps

S = TypeVar("S", bound=Settings)


class Training(ABC, Generic[S]):
    """A training from its settings: :meth:`iterate` until :attr:`is_over`.

    Algorithms make :attr:`env`, :attr:`actor`, :attr:`update` and :attr:`actors`, and define :meth:`advance`.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        frames_per_batch: env steps of an iteration.
        compile: whether updates are compiled.
    """

    env: EnvBase
    actor: Any  # the policy
    update: Any  # with an optimizer
    actors: Any  # what collects: torchrl_pool.examples.actors.Actors

    def __init__(self, config: S, folder: Path, frames_per_batch: int, *, compile: bool = False) -> None:
        self.config, self.compile = config, compile
        self.clock, self.curve = Clock(), Curve(folder)
        self.frames_per_batch = frames_per_batch
        self.num_iterations = math.ceil(config.total_frames / frames_per_batch)
        self.iteration, self.seconds = 0, 0.0
        self.ending: Literal["", "stopped", "diverged", "failed"] = ""  # how it has ended before its end

    @property
    def frames(self) -> int:
        """Env steps until now."""
        return self.iteration * self.frames_per_batch

    @property
    def is_over(self) -> bool:
        return self.iteration >= self.num_iterations

    @property
    def is_finite(self) -> bool:
        """Whether all weights are finite numbers."""
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
        speed = {"seconds": self.seconds, "steps_per_second": self.frames_per_batch / seconds}
        with self.clock.timed("other"):
            self.curve.add({"frames": self.frames, **speed, **figures})

    def take_note(self, batch: TensorDictBase) -> None:
        """Adds the episodes that end in a batch ``[N, T]`` to the curve; ends them with lives if asked to."""
        after = batch.get("next")
        if after.get("done").any():
            self.curve.note_episodes(batch)
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))

    @abstractmethod
    def advance(self) -> Row:
        """An iteration; returns what its row of the curve tells of it, the same figures each time."""

    def time_steps(self) -> None:
        """Lets the clock tell what env steps take, where the learner waits for them."""
        self.clock.times_steps = True
        time_steps(pool_of(self.env), lambda seconds: self.clock.add("env_step", seconds))

    # ---- checkpoints

    def parts(self) -> dict[str, Any]:
        """What has a state of its own, by name."""
        return {"actors": self.actors, "update": self.update}

    def networks(self) -> dict[str, Any]:
        """What has been learned: weights, and statistics of observations."""
        normalizer = normalizer_of(self.env)
        statistics = {} if normalizer is None else copy.deepcopy(dict(normalizer.state_dict()))
        return {"update": self.update.state_dict(), "normalizer": statistics}

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the training depends on: tensors, numbers, texts and bytes."""
        parts = {
            name: part.state_dict() for name, part in self.parts().items()
        }  # first: actors may draw until then
        return {
            "config": asdict(self.config),
            "compile": self.compile,
            "threads": torch.get_num_threads(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "curve": self.curve.state_dict(),
            "generator": torch.get_rng_state(),
            **self.networks(),
            **parts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state; called last by those who extend it, for torch's generator goes back too."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.curve.load_state_dict(state["curve"])
        if self.config.learning_rate != state["config"]["learning_rate"]:  # else it may have been adapted
            self.set_learning_rate(self.config.learning_rate)
        torch.set_rng_state(state["generator"])

    def load_networks(self, state: dict[str, Any]) -> None:
        """Takes over what another training has learned."""
        self.update.load_state_dict(state["update"])
        normalizer = normalizer_of(self.env)
        if normalizer is not None:
            normalizer.load_state_dict(state["normalizer"])

    def set_learning_rate(self, rate: float) -> None:
        """Sets that of the next update."""
        for group in self.update.optimizer.param_groups:
            group["lr"] = rate

    # ---- its end

    def evaluation_env(self, num_envs: int, *, render: bool = False) -> EnvBase:
        """An env of its own, that normalizes with today's statistics and learns nothing."""
        self.actors.rest()
        normalizer = normalizer_of(self.env)
        frozen = None if normalizer is None else normalizer.frozen_copy()
        settings = replace(self.config, sign_rewards=False, episodic_life=False)
        env = make_env(settings, num_envs, self.config.seed + 1_000_000, frozen, render=render)
        if isinstance(self.actor, nn.Module):
            memory = get_primers_from_module(self.actor, warn=False)
            if memory is not None:
                env = env.append_transform(InitTracker()).append_transform(memory)
        return env

    def draw(self, folder: Path) -> None:
        """Draws what there is to see besides the curve."""

    def close(self) -> None:
        """Ends threads and simulators."""
        self.actors.close()


def iterate_to_finite_weights(training: Training[Any]) -> bool:
    """Makes an iteration; returns whether all weights are finite. Errors that NaNs lead to are not raised."""
    try:
        training.iterate()
    except Exception:
        if training.is_finite:
            raise
    return training.is_finite
