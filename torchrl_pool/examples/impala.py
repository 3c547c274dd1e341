"""Trains IMPALA on any task of this package: ``python -m torchrl_pool.examples.impala``."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import A2CLoss

from torchrl_pool.examples.actors import ActorSettings, ActorTraining
from torchrl_pool.examples.networks import actor_and_critic, impala_resnet
from torchrl_pool.examples.options import layer_sizes, option
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import Row
from torchrl_pool.training import VTraceUpdate


@dataclass(frozen=True)
class Config(ActorSettings):
    """All that a training depends on: but for asynchronous ones, equal configurations give equal weights."""

    architecture: str = option(
        "cleanba",
        "whether actors wait for the learner, are one update behind, or up to two",
        choices=("synchronous", "cleanba", "asynchronous"),
        kept=True,
    )
    num_envs: int = option(32, "simulators, of all actors together", least=1, kept=True)
    steps: int = option(20, "of each env in a batch", least=1, kept=True)
    minibatches: int = option(4, "that the envs of a batch are split into, one update each", least=1)
    gradient_accumulation: int = option(1, "parts of a minibatch, looked at one after the other", least=1)
    learning_rate: float = option(6e-4, "RMSprop's, at the start", least=0)
    anneal_learning_rate: bool = option(True, "down to zero at the end")
    rmsprop_alpha: float = option(0.99, "RMSprop's smoothing", least=0, most=1, kept=True)
    rmsprop_eps: float = option(0.01, "RMSprop's epsilon, outside of the root", least=0, kept=True)
    gamma: float = option(0.99, "discount", least=0, most=1)
    rho_clip: float = option(1.0, "V-trace's largest weight of an error", above=0)
    c_clip: float = option(1.0, "V-trace's largest weight of those that follow", above=0)
    loss_reduction: str = option("sum", "over the steps of a minibatch", choices=("sum", "mean"))
    value_coef: float = option(
        0.25, "of the squared error of values (Cleanba's vf_coef is twice that)", least=0
    )
    entropy_coef: float = option(0.01, "of the policy's entropy", least=0)
    max_grad_norm: float = option(40.0, "gradients are clipped to it; 0: they are not", least=0)
    hidden: str = option(
        "64,64",
        "units of the hidden layers of actor and critic, but for pictures",
        kept=True,
        metavar="64,64",
    )

    clips_actions = True
    compiles = False

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / (self.num_envs * self.steps)) * self.minibatches

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        parts = self.minibatches * self.gradient_accumulation
        if self.num_envs % parts:
            raise ValueError(
                f"--num-envs: expected a multiple of {parts} parts of a batch, got {self.num_envs}"
            )


class IMPALATraining(ActorTraining[Config]):
    """Actors collect, the learner corrects for their older weights by V-trace (Espeholt et al. 2018)."""

    def __init__(self, config: Config, folder: Path, *, compile: bool = False) -> None:
        super().__init__(config, folder, config.num_envs * config.steps, compile=compile)
        torch.manual_seed(config.seed)
        self.env = self.make_env()
        self.actor, critic = self.make_networks(self.env)
        loss = A2CLoss(
            self.actor,
            critic,
            critic_coeff=config.value_coef,
            loss_critic_type="l2",
            entropy_bonus=config.entropy_coef > 0,
            entropy_coeff=config.entropy_coef,
            reduction=config.loss_reduction,
        )
        rms_prop = partial(
            torch.optim.RMSprop, lr=config.learning_rate, alpha=config.rmsprop_alpha, eps=config.rmsprop_eps
        )
        self.update = VTraceUpdate(
            loss,
            rms_prop,
            gamma=config.gamma,
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
            max_grad_norm=config.max_grad_norm or None,
        )
        self.actors = self.make_actors(self.actor, config.steps)

    def make_networks(
        self, env: EnvBase, generator: torch.Generator | None = None
    ) -> tuple[ProbabilisticActor, TensorDictModule]:
        return actor_and_critic(
            env, self.config.hidden, "normal", pictures=impala_resnet, generator=generator
        )

    def advance(self) -> Row:
        """Collects a batch ``[num_envs, steps]`` and learns from it once."""
        with self.clock.timed("collecting"):
            batch = self.actors.next(self.iteration)
        self.take_note(batch)
        rate = self.config.learning_rate
        if self.config.anneal_learning_rate:
            rate *= 1 - self.iteration / self.num_iterations
        self.update.optimizer.param_groups[0]["lr"] = rate
        with self.clock.timed("training"):
            losses = self._learn(batch)
        return {"learning_rate": rate, **self.actors.lag_row, **losses}

    def _learn(self, batch: TensorDictBase) -> dict[str, float]:
        losses: dict[str, torch.Tensor] = {}
        for minibatch in batch.chunk(self.config.minibatches):
            losses = self.update(*minibatch.chunk(self.config.gradient_accumulation))
        return {name: loss.item() for name, loss in losses.items()}


PROGRAM = Program("impala", "IMPALA", "Espeholt et al. 2018", Config, IMPALATraining)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
