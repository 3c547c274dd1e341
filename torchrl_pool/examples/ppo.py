"""Trains PPO on any task of this package: ``python -m torchrl_pool.examples.ppo --task HalfCheetah-v5``.

The algorithm is here from top to bottom: its settings, its networks, its loop. A :class:`Run` saves, between
two iterations, what ``begin`` was given; what ``yield`` gives is a row of the learning curve.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool.examples.actors import Actors, begin_actors, check_actors, make_actor_env
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
    layer_sizes,
)
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.run import Run
from torchrl_pool.training import PPOUpdate, ReturnScaling, estimate_advantages, minibatches

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2  # that a KL divergence moves the learning rate to; rl_games'


@dataclass(frozen=True)
class UpdateOptions(EnvOptions):
    """How batches are learned from; self-play's, too."""

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
    hidden: Kept[str] = "64,64"  # units of hidden layers of both

    @property
    def steps(self) -> int:
        """Steps of each env in a batch."""
        return math.ceil(self.frames_per_batch / self.num_envs)

    @property
    def steps_in_a_row(self) -> int:
        """Steps that are learned from in their order."""
        return 1

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / self.minibatch_size) * self.epochs

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        row, batch, size = self.steps_in_a_row, self.steps * self.num_envs, self.minibatch_size
        divisor = f"a divisor of the {self.steps} steps of an env in a batch"
        expect(self.steps % row == 0, "sequence_length", divisor, row)
        sequence = f"at least one sequence of {row} steps (--sequence-length)"
        expect(size >= row, "minibatch_size", sequence, size)
        expect(size <= batch, "minibatch_size", f"at most the {batch} steps of a batch", size)
        parts, most = self.gradient_accumulation, size // row
        sequences = f"at most the {most} steps, or sequences, of a minibatch"
        expect(parts <= most, "gradient_accumulation", sequences, parts)
        is_moved_once = not (self.kl_target and self.anneal_learning_rate)
        expect(is_moved_once, "kl_target", "0 with --anneal-learning-rate", self.kl_target)


@dataclass(frozen=True)
class PPOOptions(UpdateOptions):
    """What is learned, and from how many actors; asynchronous PPO's, too."""

    actors: Kept[Count] = 1  # that collect at once, each with its share of the envs
    normalize_rewards: Kept[bool] = False  # by returns' deviation, clipped to 10
    policy: Kept[Literal["normal", "tanh-normal"]] = "normal"  # for continuous actions
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
    def steps_in_a_row(self) -> int:
        return (self.sequence_length or self.steps) if self.recurrent != "none" else 1

    def check(self) -> None:
        super().check()
        check_actors(self)
        has_entropy = self.policy == "normal" or not self.entropy_coef
        formula = "0 with --policy tanh-normal (its entropy has no formula)"
        expect(has_entropy, "entropy_coef", formula, self.entropy_coef)


@dataclass(frozen=True)
class Config(PPOOptions):
    """All that a training depends on: equal configurations give equal weights."""

    # actors wait for the learner, are one update behind (Cleanba), or up to two
    architecture: Kept[Literal["synchronous", "cleanba", "asynchronous"]] = "synchronous"

    @property
    def acts_itself(self) -> bool:
        """Whether batches are chosen by the very networks that then learn from them, unchanged in between."""
        return self.architecture == "synchronous" and self.actors == 1


def make_networks(
    config: PPOOptions, env: EnvBase, generator: torch.Generator | None = None, *, scored: bool = True
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
    memory = None if config.recurrent == "none" else Memory(config.recurrent, config.hidden_size)
    return actor_and_critic(
        env, config.hidden, config.policy, memory=memory, generator=generator, scored=scored
    )


class Learner:
    """What learns from batches, and stays what it is while settings are changed.

    Args:
        config: the settings.
        actor: the policy.
        critic: of the values of observations.
        compile: whether updates are compiled.
    """

    def __init__(
        self, config: UpdateOptions, actor: ProbabilisticActor, critic: TensorDictModule, *, compile: bool
    ) -> None:
        self.gae = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
        self.loss = ClipPPOLoss(
            actor,
            critic,
            clip_epsilon=config.clip_epsilon,
            clip_value=config.clip_value,
            critic_coeff=config.value_coef,
            loss_critic_type="l2",
            entropy_bonus=config.entropy_coef > 0,
            entropy_coeff=config.entropy_coef,
            normalize_advantage=config.normalize_advantage,
        ).to(next(actor.parameters()).device)
        self.update = PPOUpdate(
            self.loss,
            partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True),
            max_grad_norm=config.max_grad_norm or None,
            compile=compile,
            sequence_length=config.steps_in_a_row,
            gradient_accumulation=config.gradient_accumulation,
        )

    def learn(
        self,
        config: UpdateOptions,
        batch: TensorDictBase,
        left: float,
        estimate: Callable[..., TensorDictBase] | None = None,
    ) -> dict[str, float]:
        """Estimates advantages of a batch ``[N, T]``, and learns from minibatches of it.

        Args:
            config: the settings, which may have been changed.
            batch: of the env.
            left: share of the training that is left.
            estimate: writes advantages and targets; default: generalized advantage estimation.

        Returns:
            Figures for the learning curve.
        """
        estimate = estimate or partial(estimate_advantages, self.gae)
        loss, update, optimizer = self.loss, self.update, self.update.optimizer.param_groups[0]
        if config.anneal_learning_rate:
            optimizer["lr"] = config.learning_rate * left
        loss.entropy_coeff.fill_(config.entropy_coef)
        loss.critic_coeff.fill_(config.value_coef)
        for clip in (loss.clip_epsilon, *([loss.clip_value] if config.clip_value else [])):
            clip.fill_(config.clip_epsilon * (left if config.anneal_clip_epsilon else 1.0))
        for epoch in range(config.epochs):
            if epoch == 0 or config.advantages_each_epoch:
                # Where only the time limit ended an episode, the value of what would have followed counts.
                columns = update.columns(estimate(batch, sequence_length=config.steps_in_a_row))
            size, length = config.minibatch_size, config.steps_in_a_row
            for indices in minibatches(batch.numel(), size, length, columns[0].device):
                losses = update(columns, indices)
        figures = {**update.diagnostics(columns), "learning_rate": optimizer["lr"]}
        if config.kl_target:  # as rl_games does
            if figures["kl"] > 2 * config.kl_target:  # the batch took the policy too far
                optimizer["lr"] = max(optimizer["lr"] / 1.5, LOWEST_RATE)
            elif figures["kl"] < config.kl_target / 2:
                optimizer["lr"] = max(optimizer["lr"], min(optimizer["lr"] * 1.5, HIGHEST_RATE))
        return {**figures, **{name: one.item() for name, one in losses.items()}}


def train(
    config: Config, run: Run, begin_actors: Callable[..., Actors] = begin_actors
) -> Iterator[dict[str, float]]:
    """Collects a batch, estimates advantages, learns from minibatches of it, and again."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    # Of batches that they have chosen themselves, the update works out the log-probabilities at once.
    make = partial(make_networks, scored=not config.acts_itself)
    actor, critic = (network.to(run.device) for network in make(config, env))
    learner = Learner(config, actor, critic, compile=run.compile)  # before actors copy: it moves the weights
    scaling = ReturnScaling(config.num_envs, config.gamma)
    actors = begin_actors(config, env, actor, make, config.steps)
    frames = config.steps * config.num_envs
    yield run.begin(env, actor, frames, actors=actors, update=learner.update, scaling=scaling)

    for iteration in run.iterations():
        batch = actors.next(iteration)  # [num_envs, steps]
        run.note(batch)
        if config.normalize_rewards:
            after = batch["next"]
            after["reward"] = scaling(after["reward"], after["done"])
        yield {**learner.learn(config, batch, 1 - iteration / run.num_iterations), **actors.lag_row}


PROGRAM = Program("ppo", "PPO", "Schulman et al. 2017", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
