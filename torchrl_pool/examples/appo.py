"""Trains asynchronous PPO on any task of this package: ``python -m torchrl_pool.examples.appo``."""

from __future__ import annotations

import copy
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensordict import TensorDictBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives.value import VTrace

from torchrl_pool.examples import ppo
from torchrl_pool.examples.actors import Threaded
from torchrl_pool.examples.options import option
from torchrl_pool.examples.population import Population
from torchrl_pool.examples.ppo import PPOTraining
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import plot_lags
from torchrl_pool.examples.training import Training
from torchrl_pool.training import estimate_vtrace


@dataclass(frozen=True)
class Config(ppo.Config):
    """PPO's settings, and those of learning from data that is a little old."""

    max_lag: int = option(
        1, "batches that weights may be behind what they collect for; 0: no thread", least=0
    )
    refreshes: int = option(1, "times in a batch that the newest weights are taken", least=1)
    double_buffered: bool = option(False, "step one half of the envs while the policy acts for the other")
    vtrace: bool = option(True, "V-trace's targets and advantages in place of GAE's")
    population: int = option(
        1, "policies that train together, with hyperparameters of their own", least=1, kept=True
    )
    exchange_frames: int = option(
        500_000, "env steps of each policy between two exchanges of weights", least=1, needs="population"
    )
    mutation_rate: float = option(
        0.15, "probability that an exchange changes a hyperparameter", least=0, most=1, needs="population"
    )

    def check(self) -> None:
        super().check()
        if self.architecture != "synchronous":
            raise ValueError("--architecture: expected none, APPO's is said by --max-lag and --refreshes")
        if self.total_frames < self.population:
            raise ValueError(
                f"--total-frames: expected some for each of {self.population} policies, "
                f"got {self.total_frames}"
            )
        steps = math.ceil(self.frames_per_batch / self.num_envs)
        if steps % self.refreshes:
            raise ValueError(f"--refreshes: expected a divisor of {steps} steps, got {self.refreshes}")


class APPOTraining(PPOTraining):
    """PPO whose batches a thread collects while it learns from those before (Petrenko et al. 2020).

    Each step is stamped with the version of the weights that chose it: the number of batches that they have
    learned from. Batch n is learned from by weights of version n; its lag is n less its stamps.
    """

    config: Config
    actors: Threaded
    acts_itself = False

    def __init__(self, config: Config, folder: Path, *, compile: bool = False) -> None:
        super().__init__(config, folder, compile=compile)
        critic = self.advantage.value_network
        self.vtrace = VTrace(gamma=config.gamma, actor_network=self.actor, value_network=critic)

    def make_actors(self, policy: ProbabilisticActor, steps: int) -> Threaded:
        config = self.config
        frames = self.env.batch_size[0] * steps // config.refreshes
        actors = [
            self.begin_actor(number, frames, double_buffered=config.double_buffered)
            for number in range(config.actors)
        ]
        return Threaded(actors, policy, config.max_lag, refreshes=config.refreshes)

    def _estimate(self, batch: TensorDictBase) -> TensorDictBase:
        if not self.config.vtrace:
            return super()._estimate(batch)
        return estimate_vtrace(self.vtrace, batch, sequence_length=self.config.steps_in_a_row)

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
        """Takes over what another training has learned: weights, their optimizer's state, statistics."""
        self.actors.rest()
        other.actors.rest()
        self.load_networks(copy.deepcopy(other.networks()))
        if self.scaling is not None and other.scaling is not None:
            returns = self.scaling.state_dict()["returns"]
            self.scaling.load_state_dict({**other.scaling.state_dict(), "returns": returns})
        self.actors.publish(self.iteration)


def train(config: Config, folder: Path, *, compile: bool = False) -> Training[Any]:
    """One training, or a population of them."""
    if config.population > 1:
        return Population(APPOTraining, config, folder, compile=compile)
    return APPOTraining(config, folder, compile=compile)


PROGRAM = Program("appo", "APPO", "Petrenko et al. 2020", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
