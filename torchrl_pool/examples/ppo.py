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
from typing import Annotated, Any, Literal

import torch
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
from torchrl_pool.examples.program import Program, Run
from torchrl_pool.examples.results import Row
from torchrl_pool.training import PPOUpdate, ReturnScaling, estimate_advantages, minibatches

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2  # that a KL divergence moves the learning rate to; rl_games'


@dataclass(frozen=True)
class Config(EnvOptions):
    """All that a training depends on: equal configurations give equal weights."""

    # actors wait for the learner, are one update behind (Cleanba), or up to two
    architecture: Kept[Literal["synchronous", "cleanba", "asynchronous"]] = "synchronous"
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
    def acts_itself(self) -> bool:
        """Whether batches are chosen by the very networks that then learn from them, unchanged in between."""
        return self.architecture == "synchronous" and self.actors == 1

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


def check_updates(config: Any) -> None:
    """Raises ValueError: a batch does not divide so, or an update cannot have these settings."""
    layer_sizes(config.hidden)
    row, batch, size = config.steps_in_a_row, config.steps * config.num_envs, config.minibatch_size
    divisor = f"a divisor of the {config.steps} steps of an env in a batch"
    expect(config.steps % row == 0, "sequence_length", divisor, config.sequence_length)
    sequence = f"at least one sequence of {row} steps (--sequence-length)"
    expect(size >= row, "minibatch_size", sequence, size)
    expect(size <= batch, "minibatch_size", f"at most the {batch} steps of a batch", size)
    parts, most = config.gradient_accumulation, max(size // row, 1)
    sequences = f"at most the {most} steps, or sequences, of a minibatch"
    expect(parts <= most, "gradient_accumulation", sequences, parts)
    is_moved_once = not (config.kl_target and config.anneal_learning_rate)
    expect(is_moved_once, "kl_target", "0 with --anneal-learning-rate", config.kl_target)
    has_entropy = config.policy == "normal" or not config.entropy_coef
    formula = "0 with --policy tanh-normal (its entropy has no formula)"
    expect(has_entropy, "entropy_coef", formula, config.entropy_coef)


def make_networks(
    config: Config, env: EnvBase, generator: torch.Generator | None = None
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
    memory = None if config.recurrent == "none" else Memory(config.recurrent, config.hidden_size)
    # Of batches that they have chosen themselves, the update works out the log-probabilities at once.
    scored = not config.acts_itself
    return actor_and_critic(
        env, config.hidden, config.policy, memory=memory, generator=generator, scored=scored
    )


def train(config: Config, run: Run, begin_actors: Callable[..., Actors] = begin_actors) -> Iterator[Row]:
    """Collects a batch, estimates advantages, learns from minibatches of it, and again."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    actor, critic = (network.to(run.device) for network in make_networks(config, env))
    gae = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
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
    actors = begin_actors(config, env, actor, make_networks, config.steps)
    frames = config.steps * config.num_envs
    yield run.begin(env, actor, frames, actors=actors, update=update, scaling=scaling)

    for iteration in run.iterations():
        optimizer = update.optimizer.param_groups[0]
        batch = actors.next(iteration)  # [num_envs, steps]
        run.note(batch)
        left = 1 - iteration / run.num_iterations
        if config.anneal_learning_rate:
            optimizer["lr"] = config.learning_rate * left
        if config.anneal_clip_epsilon:
            for clip in (loss.clip_epsilon, *([loss.clip_value] if config.clip_value else [])):
                clip.fill_(config.clip_epsilon * left)
        if config.normalize_rewards:
            after = batch["next"]
            after["reward"] = scaling(after["reward"], after["done"])

        for epoch in range(config.epochs):
            if epoch == 0 or config.advantages_each_epoch:
                # Where only the time limit ended an episode, the value of what would have followed counts.
                estimate_advantages(gae, batch, sequence_length=config.steps_in_a_row)
                columns = update.columns(batch)
            size, length = config.minibatch_size, config.steps_in_a_row
            for indices in minibatches(batch.numel(), size, length, run.device):
                losses = update(columns, indices)

        figures = {**update.diagnostics(columns), "learning_rate": optimizer["lr"]}
        if config.kl_target:
            optimizer["lr"] = adapted(optimizer["lr"], figures["kl"], config.kl_target)
        yield {**figures, **actors.lag_row, **{name: one.item() for name, one in losses.items()}}


def adapted(rate: float, kl: float, target: float) -> float:
    """A learning rate, moved where a batch took the policy too far, or not far, as rl_games does."""
    if kl > 2 * target:
        return max(rate / 1.5, LOWEST_RATE)
    return max(rate, min(rate * 1.5, HIGHEST_RATE)) if kl < target / 2 else rate


PROGRAM = Program("ppo", "PPO", "Schulman et al. 2017", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
