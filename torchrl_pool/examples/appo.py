"""Trains asynchronous PPO on any task of this package: ``python -m torchrl_pool.examples.appo``.

A thread collects batches while the learner learns from those before (Petrenko et al. 2020). Each step is
stamped with the version of the weights that chose it: the number of batches that they have learned from.
Batch n is learned from by weights of version n; its lag is n less its stamps.

The algorithm is here from top to bottom: its settings, its networks, its loop. A :class:`Run` saves, between
two iterations, what ``begin`` was given; what ``yield`` gives is a row of the learning curve.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE, VTrace

from torchrl_pool.examples import population
from torchrl_pool.examples.actors import Threaded, check_actors, make_actor, make_actor_env
from torchrl_pool.examples.networks import Memory, actor_and_critic
from torchrl_pool.examples.options import (
    Count,
    EnvOptions,
    Kept,
    Limits,
    Needs,
    NotNegative,
    Share,
    Whole,
    expect,
)
from torchrl_pool.examples.ppo import adapted, check_updates
from torchrl_pool.examples.program import Program, Run
from torchrl_pool.examples.results import Row
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    estimate_advantages,
    estimate_vtrace,
    minibatches,
)


@dataclass(frozen=True)
class Config(EnvOptions):
    """All that a training depends on."""

    max_lag: Whole = 1  # batches that actors may be ahead; 0: no thread
    refreshes: Count = 1  # times in a batch that the newest weights are taken
    double_buffered: bool = False  # step one half of the envs while the policy acts for the other
    vtrace: bool = True  # V-trace's targets and advantages in place of GAE's
    population: Kept[Count] = 1  # policies that train together
    # env steps of each policy between two exchanges of weights
    exchange_frames: Annotated[Count, Needs("population")] = 500_000
    # probability that an exchange changes a hyperparameter
    mutation_rate: Annotated[Share, Needs("population")] = 0.15
    actors: Kept[Count] = 1  # that collect at once, each with its share of the envs
    frames_per_batch: Kept[Count] = 2048  # env steps of all envs in a batch
    minibatch_size: Count = 64  # env steps that an update learns from
    gradient_accumulation: Count = 1  # parts of a minibatch, looked at one after the other
    epochs: Count = 10  # times that each step is learned from
    learning_rate: NotNegative = 3e-4  # Adam's, at the start
    anneal_learning_rate: bool = False  # down to zero at the end
    kl_target: NotNegative = 0.0  # KL divergence that the learning rate is adapted to; 0: none
    adam_eps: Kept[NotNegative] = 1e-5  # Adam's epsilon
    gamma: Share = 0.99  # discount
    gae_lambda: Share = 0.95  # of generalized advantage estimation
    advantages_each_epoch: bool = False  # estimate advantages before each epoch, not once a batch
    normalize_advantage: bool = True  # within each minibatch
    # how far probabilities may move from 1
    clip_epsilon: Annotated[float, Limits(above=0, below=1)] = 0.2
    anneal_clip_epsilon: bool = False  # down to zero at the end
    clip_value: bool = False  # values may move by clip-epsilon, too
    value_coef: NotNegative = 0.5  # of the squared error of values (CleanRL's vf_coef: twice that)
    entropy_coef: NotNegative = 0.0  # of the policy's entropy
    max_grad_norm: NotNegative = 0.5  # gradients are clipped to it; 0: they are not
    normalize_rewards: Kept[bool] = False  # by returns' deviation, clipped to 10
    policy: Kept[Literal["normal", "tanh-normal"]] = "normal"  # for continuous actions
    hidden: Kept[str] = "64,64"  # units of hidden layers of both
    recurrent: Kept[Literal["none", "lstm", "gru"]] = "none"  # memory of both
    hidden_size: Kept[Annotated[Count, Needs("recurrent")]] = 64  # units of that memory
    # steps that it is learned through; the states before are data; 0: a whole batch
    sequence_length: Annotated[Whole, Needs("recurrent")] = 0

    supports_images = True

    @property
    def clips_actions(self) -> bool:  # type: ignore[override]
        return self.policy == "normal"

    @property
    def compiles(self) -> bool:  # type: ignore[override]
        return self.recurrent == "none"

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / self.minibatch_size) * self.epochs

    @property
    def steps(self) -> int:
        """Steps of each env in a batch."""
        return math.ceil(self.frames_per_batch / self.num_envs)

    @property
    def steps_in_a_row(self) -> int:
        """Steps that are learned from in their order: one, without a memory."""
        return (self.sequence_length or self.steps) if self.recurrent != "none" else 1

    def check(self) -> None:
        super().check()
        check_actors(self)
        check_updates(self)
        each = f"some for each of {self.population} policies"
        expect(self.total_frames >= self.population, "total_frames", each, self.total_frames)
        divisor = f"a divisor of {self.steps} steps"
        expect(self.steps % self.refreshes == 0, "refreshes", divisor, self.refreshes)


def make_networks(
    config: Config, env: EnvBase, generator: torch.Generator | None = None
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
    memory = None if config.recurrent == "none" else Memory(config.recurrent, config.hidden_size)
    return actor_and_critic(env, config.hidden, config.policy, memory=memory, generator=generator)


def train_one(config: Config, run: Run) -> Iterator[Row]:
    """One policy."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    actor, critic = (network.to(run.device) for network in make_networks(config, env))
    gae = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
    vtrace = VTrace(gamma=config.gamma, actor_network=actor, value_network=critic)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=config.clip_epsilon,
        clip_value=config.clip_value,
        critic_coeff=config.value_coef,
        loss_critic_type="l2",
        entropy_bonus=config.entropy_coef > 0,
        entropy_coeff=config.entropy_coef,
        normalize_advantage=config.normalize_advantage,
    ).to(run.device)
    update = PPOUpdate(
        loss,
        partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True),
        max_grad_norm=config.max_grad_norm or None,
        compile=run.compile,
        sequence_length=config.steps_in_a_row,
        gradient_accumulation=config.gradient_accumulation,
    )
    scaling = ReturnScaling(config.num_envs, config.gamma)
    rollout = env.batch_size[0] * config.steps // config.refreshes
    actors = Threaded(
        [
            make_actor(
                make_networks,
                config,
                number,
                rollout,
                None if number else env,
                double_buffered=config.double_buffered,
                device=run.device,
            )
            for number in range(config.actors)
        ],
        actor,
        config.max_lag,
        refreshes=config.refreshes,
    )
    frames = config.steps * config.num_envs
    yield run.begin(env, actor, frames, actors=actors, update=update, scaling=scaling)

    for iteration in run.iterations():
        optimizer = update.optimizer.param_groups[0]
        batch = actors.next(iteration)  # [num_envs, steps], and the next one is begun
        run.note(batch)
        config, left = run.config, 1 - iteration / run.num_iterations  # a population changes the settings
        if config.anneal_learning_rate:
            optimizer["lr"] = config.learning_rate * left
        loss.entropy_coeff.fill_(config.entropy_coef)
        loss.critic_coeff.fill_(config.value_coef)
        for clip in (loss.clip_epsilon, *([loss.clip_value] if config.clip_value else [])):
            clip.fill_(config.clip_epsilon * (left if config.anneal_clip_epsilon else 1.0))
        if config.normalize_rewards:
            after = batch["next"]
            after["reward"] = scaling(after["reward"], after["done"])

        for epoch in range(config.epochs):
            if epoch == 0 or config.advantages_each_epoch:
                if config.vtrace:
                    estimate_vtrace(vtrace, batch, sequence_length=config.steps_in_a_row)
                else:
                    estimate_advantages(gae, batch, sequence_length=config.steps_in_a_row)
                columns = update.columns(batch)
            size, length = config.minibatch_size, config.steps_in_a_row
            for indices in minibatches(batch.numel(), size, length, run.device):
                losses = update(columns, indices)

        figures = {**update.diagnostics(columns), "learning_rate": optimizer["lr"]}
        if config.kl_target:
            optimizer["lr"] = adapted(optimizer["lr"], figures["kl"], config.kl_target)
        yield {**figures, **actors.lag_row, **{name: one.item() for name, one in losses.items()}}


def train(config: Config, run: Run) -> Iterator[Row]:
    """One policy, or a population of them."""
    if config.population > 1:
        return population.train(train_one, config, run)
    return train_one(config, run)


PROGRAM = Program("appo", "APPO", "Petrenko et al. 2020", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
