"""Trains IMPALA on any task of this package: ``python -m torchrl_pool.examples.impala``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import A2CLoss

from torchrl_pool.examples.actors import Actors, begin_actors, check_actors, make_actor_env
from torchrl_pool.examples.envs import EnvOptions
from torchrl_pool.examples.networks import actor_and_critic, impala_resnet
from torchrl_pool.examples.options import layer_sizes, option
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import Row
from torchrl_pool.examples.run import Run
from torchrl_pool.training import VTraceUpdate


@dataclass(frozen=True)
class Config(EnvOptions):
    """All that a training depends on: but for asynchronous ones, equal configurations give equal weights."""

    architecture: str = option(
        "cleanba",
        "whether actors wait for the learner, are one update behind, or up to two",
        choices=("synchronous", "cleanba", "asynchronous"),
        kept=True,
    )
    actors: int = option(1, "that collect at once, each with its share of the envs", least=1, kept=True)
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
    supports_images = True
    compiles = False

    @property
    def acts_itself(self) -> bool:
        """Whether batches are chosen by the very networks that then learn from them, unchanged in between."""
        return self.architecture == "synchronous" and self.actors == 1

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / (self.num_envs * self.steps)) * self.minibatches

    def check(self) -> None:
        super().check()
        check_actors(self)
        layer_sizes(self.hidden)
        parts = self.minibatches * self.gradient_accumulation
        if self.num_envs % parts:
            raise ValueError(
                f"--num-envs: expected a multiple of {parts} parts of a batch, got {self.num_envs}"
            )


def make_networks(
    config: Config, env: EnvBase, generator: torch.Generator | None = None
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
    return actor_and_critic(env, config.hidden, "normal", pictures=impala_resnet, generator=generator)


def train(config: Config, run: Run, begin_actors: Callable[..., Actors] = begin_actors) -> Iterator[Row]:
    """Actors collect, the learner corrects for their older weights by V-trace (Espeholt et al. 2018)."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    actor, critic = make_networks(config, env)
    loss = A2CLoss(
        actor,
        critic,
        critic_coeff=config.value_coef,
        loss_critic_type="l2",
        entropy_bonus=config.entropy_coef > 0,
        entropy_coeff=config.entropy_coef,
        reduction=config.loss_reduction,
    )
    update = VTraceUpdate(
        loss,
        partial(
            torch.optim.RMSprop, lr=config.learning_rate, alpha=config.rmsprop_alpha, eps=config.rmsprop_eps
        ),
        gamma=config.gamma,
        rho_clip=config.rho_clip,
        c_clip=config.c_clip,
        max_grad_norm=config.max_grad_norm or None,
    )
    actors = begin_actors(config, env, actor, make_networks, config.steps)
    yield run.begin(env, actor, config.num_envs * config.steps, actors=actors, update=update)

    for iteration in run.iterations():
        optimizer = update.optimizer.param_groups[0]
        batch = actors.next(iteration)  # [num_envs, steps]
        run.note(batch)
        left = 1 - iteration / run.num_iterations if config.anneal_learning_rate else 1.0
        optimizer["lr"] = config.learning_rate * left
        for minibatch in batch.chunk(config.minibatches):
            losses = update(*minibatch.chunk(config.gradient_accumulation))
        yield {
            "learning_rate": optimizer["lr"],
            **actors.lag_row,
            **{name: one.item() for name, one in losses.items()},
        }


PROGRAM = Program("impala", "IMPALA", "Espeholt et al. 2018", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
