"""Trains asynchronous PPO on any task of this package: ``python -m torchrl_pool.examples.appo``."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.modules import ProbabilisticActor
from torchrl.objectives.value import VTrace

from torchrl_pool.examples.actors import Actor, Actors
from torchrl_pool.examples.ahead import Ahead
from torchrl_pool.examples.appo_settings import FOR_FAMILY, PRESETS, Config
from torchrl_pool.examples.envs import normaliser_of
from torchrl_pool.examples.population import Population
from torchrl_pool.examples.ppo import PPOTraining
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.training import Training
from torchrl_pool.examples.training_run import Row, plot_lags
from torchrl_pool.training import estimate_vtrace


class BoundedActor(Actors):
    """An actor that takes the newest weights, and waits where it would get too far ahead of the learner.

    No step is ever too old, and none is thrown away.

    Args:
        actor: of rollouts, some of which make a batch, one after the other.
        policy: what learns.
        max_lag: batches that weights may be behind what they collect for; 0: no thread is needed.
        refreshes: rollouts in a batch, each begun with the newest weights.
    """

    def __init__(self, actor: Actor, policy: nn.Module, *, max_lag: int, refreshes: int) -> None:
        super().__init__([actor], policy)
        self._refreshes = refreshes
        self._ahead = Ahead(self._collect, max_lag)
        self.publish(0)

    def publish(self, version: int) -> None:
        """Lets the next rollout be made with today's weights."""
        self.published = version, self.weights()

    def finish(self, version: int) -> None:
        """Tells that a batch has been learned from, and publishes what came out."""
        self.publish(version)
        self._ahead.finish()

    def _collect(self) -> TensorDictBase:
        rollouts = [self.actors[0].collect(*self.published) for _ in range(self._refreshes)]
        return rollouts[0] if len(rollouts) == 1 else torch.cat(rollouts, 1)

    def _next(self, version: int) -> TensorDictBase:
        self._explore()
        return next(self._ahead)

    def rest(self) -> None:
        self._ahead.rest()
        super().rest()

    def close(self) -> None:
        self._ahead.close()
        super().close()

    def state_dict(self) -> dict[str, Any]:
        """What has been collected and not learned from is left out: with ``max_lag=0``, there is nothing."""
        self.rest()
        return super().state_dict()


class APPOTraining(PPOTraining):
    """PPO whose batches a thread collects while it learns from those before (Petrenko et al. 2020).

    Each step is stamped with the version of the weights that chose it: the number of batches that they have
    learned from. Batch n is learned from by weights of version n; its lag is n less its stamps.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        compile: whether updates are compiled.
    """

    config: Config
    actors: BoundedActor
    acts_itself = False

    def __init__(self, config: Config, folder: Path, *, compile: bool = False) -> None:
        super().__init__(config, folder, compile=compile)
        critic = self.advantage.value_network
        self.vtrace = VTrace(gamma=config.gamma, actor_network=self.actor, value_network=critic)

    def make_actors(self, policy: ProbabilisticActor, steps: int) -> BoundedActor:
        config = self.config
        frames = config.num_envs * steps // config.refreshes
        actor = self.make_actor(0, frames, double_buffered=config.double_buffered)
        return BoundedActor(actor, policy, max_lag=config.max_lag, refreshes=config.refreshes)

    def make_iteration(self) -> None:
        super().make_iteration()
        self.actors.finish(self.iteration)

    def advance(self) -> Row:
        return {**super().advance(), "largest_lag": self.actors.largest_lag}

    def _estimate(self, batch: TensorDictBase) -> TensorDictBase:
        if not self.config.vtrace:
            return super()._estimate(batch)
        return estimate_vtrace(self.vtrace, batch, sequence_length=self.config.steps_in_a_row)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.actors.publish(self.iteration)

    def draw(self, folder: Path) -> None:
        plot_lags({f"max lag {self.config.max_lag}": self.actors.lags}, folder / "lag.png")

    # ---- in a population

    def set(self, **hyperparameters: Any) -> None:
        """Changes what may change while it learns: see :data:`~torchrl_pool.examples.population.MUTATED`."""
        before, self.config = self.config, replace(self.config, **hyperparameters)
        self.loss.entropy_coeff.fill_(self.config.entropy_coef)
        self.set_clip_epsilon(self.config.clip_epsilon)
        self.loss.critic_coeff.fill_(self.config.value_coef)
        if self.config.learning_rate != before.learning_rate:  # else it may have been adapted
            self.set_learning_rate(self.config.learning_rate)

    def become(self, other: APPOTraining) -> None:
        """Takes over what another training has learned: weights, their optimiser's state, statistics."""
        self.actors.rest()
        other.actors.rest()
        self.update.load_state_dict(copy.deepcopy(other.update.state_dict()))
        mine, theirs = normaliser_of(self.env), normaliser_of(other.env)
        if mine is not None and theirs is not None:
            mine.load_state_dict(copy.deepcopy(theirs.state_dict()))
        if self.scaling is not None and other.scaling is not None:
            returns = self.scaling.state_dict()["returns"]
            self.scaling.load_state_dict({**other.scaling.state_dict(), "returns": returns})
        self.actors.publish(self.iteration)


def train(config: Config, folder: Path, *, compile: bool = False) -> Training[Any]:
    """One training, or a population of them."""
    if config.population > 1:
        return Population(APPOTraining, config, folder, compile=compile)
    return APPOTraining(config, folder, compile=compile)


PROGRAM = Program("appo", "APPO", "Petrenko et al. 2020", Config, PRESETS, FOR_FAMILY, "classic", train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
