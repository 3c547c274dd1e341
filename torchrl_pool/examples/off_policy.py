"""What trainings from a replay buffer share: batches come in, and each is followed by as many updates."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from pathlib import Path
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from torchrl_pool import PoolCollector
from torchrl_pool.examples.actors import Actor, Actors, Cleanba, Synchronous
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.off_policy_settings import OffPolicySettings
from torchrl_pool.examples.replay import Replay
from torchrl_pool.examples.training import Training
from torchrl_pool.examples.training_run import Row, time_steps

C = TypeVar("C", bound=OffPolicySettings)


class OffPolicyTraining(Training[C]):
    """Collects a batch, puts it into a replay buffer, makes some updates from there, and again.

    Algorithms define :meth:`build` and :meth:`learn`.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        compile: whether updates are compiled.
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
        self.actors: Actors = (
            Cleanba([Actor(collector, acting)], policy) if config.parallel else Synchronous(collector, policy)
        )
        self.columns: list[torch.Tensor] = []
        self.losses = dict.fromkeys(self.update.names, math.nan)
        if not config.parallel:  # else envs step while the learner learns
            time_steps(pool_of(self.env), self.clock)

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
                self._take_in(batch)
            with self.clock.timed("training"):
                losses = self._learn() or losses
        if losses:
            self.losses = {name: losses[name].item() for name in self.update.names}
        return {"buffer": len(self.replay), **self.losses}

    def _take_in(self, batch: TensorDictBase) -> None:
        after = batch.get("next")
        if after.get("done").any():
            self.curve.note_episodes(batch)
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))
        self.replay.extend(batch)

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

    def state_dict(self) -> dict[str, Any]:
        actors = self.actors.state_dict()  # first: what is being collected draws from torch's generator
        return {
            **super().state_dict(),
            "actors": actors,
            "update": self.update.state_dict(),
            "replay": self.replay.state_dict(with_rows=self.config.save_replay),
            "learner": self.generator.get_state(),
            "losses": self.losses,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.actors.load_state_dict(state["actors"])
        self.update.load_state_dict(state["update"])
        self.replay.load_state_dict(state["replay"])
        self.generator.set_state(state["learner"])
        self.losses = dict(state["losses"])
        super().load_state_dict(state)

    def evaluation_env(self, num_envs: int, *, films: bool = False) -> EnvBase:
        self.actors.rest()
        return super().evaluation_env(num_envs, films=films)

    def close(self) -> None:
        super().close()
        self.actors.close()
