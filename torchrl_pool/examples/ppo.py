"""Trains PPO on any task of this package: ``python -m torchrl_pool.examples.ppo --task HalfCheetah-v5``."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool.examples.actors import ActorSettings, ActorTraining
from torchrl_pool.examples.networks import Memory, actor_and_critic
from torchrl_pool.examples.options import layer_sizes, option
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import Row
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    estimate_advantages,
    minibatches,
)

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2  # that a KL divergence moves the learning rate to; rl_games'


@dataclass(frozen=True)
class Config(ActorSettings):
    """All that a training depends on: equal configurations give equal weights."""

    frames_per_batch: int = option(
        2048, "env steps of all envs between two rounds of updates", least=1, kept=True
    )
    minibatch_size: int = option(64, "env steps that an update learns from", least=1)
    gradient_accumulation: int = option(1, "parts of a minibatch, looked at one after the other", least=1)
    epochs: int = option(10, "times that each step is learned from", least=1)
    learning_rate: float = option(3e-4, "Adam's, at the start", least=0)
    anneal_learning_rate: bool = option(False, "down to zero at the end")
    kl_target: float = option(
        0.0, "KL divergence that the learning rate is moved for after each batch; 0: it is not", least=0
    )
    adam_eps: float = option(1e-5, "Adam's epsilon", least=0, kept=True)
    gamma: float = option(0.99, "discount", least=0, most=1)
    gae_lambda: float = option(0.95, "of generalized advantage estimation", least=0, most=1)
    advantages_each_epoch: bool = option(False, "estimate advantages before each epoch, not once a batch")
    normalize_advantage: bool = option(True, "within each minibatch")
    clip_epsilon: float = option(0.2, "how far probabilities may move from 1", above=0, below=1)
    anneal_clip_epsilon: bool = option(False, "down to zero at the end")
    clip_value: bool = option(False, "values may move by clip-epsilon, too")
    value_coef: float = option(
        0.5, "of the mean squared error of values (CleanRL's vf_coef is twice that)", least=0
    )
    entropy_coef: float = option(0.0, "of the policy's entropy", least=0)
    max_grad_norm: float = option(0.5, "gradients are clipped to it; 0: they are not", least=0)
    normalize_rewards: bool = option(
        False, "by the deviation of discounted returns, clipped to 10", kept=True
    )
    policy: str = option("normal", "for continuous actions", choices=("normal", "tanh-normal"), kept=True)
    hidden: str = option(
        "64,64", "units of the hidden layers of actor and critic", kept=True, metavar="64,64"
    )
    recurrent: str = option(
        "none", "what actor and critic remember with", choices=("none", "lstm", "gru"), kept=True
    )
    hidden_size: int = option(64, "units of that memory", least=1, kept=True, needs="recurrent")
    sequence_length: int = option(
        0,
        "steps that it is learned through; the states before are data; 0: a whole batch",
        least=0,
        needs="recurrent",
    )

    @property
    def clips_actions(self) -> bool:
        return self.policy == "normal"

    @property
    def compiles(self) -> bool:
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
        layer_sizes(self.hidden)
        if self.steps % self.steps_in_a_row:
            raise ValueError(
                f"--sequence-length: expected a divisor of the {self.steps} steps of an env in a batch, "
                f"got {self.sequence_length}"
            )
        if self.minibatch_size < self.steps_in_a_row:
            raise ValueError(
                f"--minibatch-size: expected at least one sequence of {self.steps_in_a_row} steps "
                f"(--sequence-length), got {self.minibatch_size}"
            )
        if self.minibatch_size > self.steps * self.num_envs:
            raise ValueError(
                f"--minibatch-size: expected at most the {self.steps * self.num_envs} steps of a batch, "
                f"got {self.minibatch_size}"
            )
        if self.kl_target and self.anneal_learning_rate:
            raise ValueError("--kl-target: expected 0 with --anneal-learning-rate, got both")
        parts = self.minibatch_size // self.steps_in_a_row
        if self.gradient_accumulation > parts:
            raise ValueError(
                f"--gradient-accumulation: expected at most the {parts} "
                f"{'steps' if self.recurrent == 'none' else 'sequences'} of a minibatch, "
                f"got {self.gradient_accumulation}"
            )
        if self.entropy_coef and self.policy == "tanh-normal":
            raise ValueError(
                "--entropy-coef: expected 0 with --policy tanh-normal (its entropy has no formula)"
            )


def memory_of(config: Config) -> Memory | None:
    """What actor and critic remember with; None: nothing."""
    return None if config.recurrent == "none" else Memory(config.recurrent, config.hidden_size)


class PPOTraining(ActorTraining[Config]):
    """Collects a batch, estimates advantages, learns from minibatches of it, and again."""

    def __init__(self, config: Config, folder: Path, *, compile: bool = False) -> None:
        super().__init__(config, folder, config.steps * config.num_envs, compile=compile)
        torch.manual_seed(config.seed)
        self.env = self.make_env()
        self.actor, critic = self.make_networks(self.env)
        self.advantage = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
        self.loss = ClipPPOLoss(
            self.actor,
            critic,
            clip_epsilon=config.clip_epsilon,
            clip_value=config.clip_value,
            critic_coeff=config.value_coef,
            loss_critic_type="l2",
            entropy_bonus=config.entropy_coef > 0,
            entropy_coeff=config.entropy_coef,
            normalize_advantage=config.normalize_advantage,
        )
        adam = partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True)
        in_a_row = config.steps_in_a_row
        self.update = PPOUpdate(
            self.loss,
            adam,
            max_grad_norm=config.max_grad_norm or None,
            compile=compile,
            sequence_length=in_a_row,
            gradient_accumulation=config.gradient_accumulation,
        )
        self.scaling = ReturnScaling(config.num_envs, config.gamma) if config.normalize_rewards else None
        self.actors = self.make_actors(self.actor, config.steps)

    def make_networks(
        self, env: EnvBase, generator: torch.Generator | None = None
    ) -> tuple[ProbabilisticActor, TensorDictModule]:
        config = self.config
        memory = memory_of(config)
        # Of batches that they have chosen themselves, the update works out the log-probabilities at once.
        return actor_and_critic(
            env, config.hidden, config.policy, memory=memory, generator=generator, scored=not self.acts_itself
        )

    def advance(self) -> Row:
        """Collects a batch ``[num_envs, steps]`` and learns from it."""
        with self.clock.timed("collecting"):
            batch = self.actors.next(self.iteration)
        self.take_note(batch)
        self._anneal()
        with self.clock.timed("training"):
            self._prepare(batch)
            losses, columns = self._learn(batch)
        rate = self.update.optimizer.param_groups[0]["lr"]
        with self.clock.timed("other"):
            figures = self.update.diagnostics(columns)
            self._adapt(figures["kl"])
        return {**figures, "learning_rate": rate, **self.actors.lag_row, **losses}

    def _anneal(self) -> None:
        config, left = self.config, 1 - self.iteration / self.num_iterations
        if config.anneal_learning_rate:
            self.update.optimizer.param_groups[0]["lr"] = config.learning_rate * left
        if config.anneal_clip_epsilon:
            self.set_clip_epsilon(config.clip_epsilon * left)

    def set_clip_epsilon(self, epsilon: float) -> None:
        """Sets how far probabilities may move in an update, and values where they are clipped, too."""
        self.loss.clip_epsilon.fill_(epsilon)
        if self.config.clip_value:
            self.loss.clip_value.fill_(epsilon)

    def _adapt(self, kl: float) -> None:
        """Moves the learning rate where a batch took the policy too far, or not far, as rl_games does."""
        target, group = self.config.kl_target, self.update.optimizer.param_groups[0]
        rate = group["lr"]
        if target and kl > 2 * target:
            group["lr"] = max(rate / 1.5, LOWEST_RATE)
        elif target and kl < target / 2:
            group["lr"] = max(rate, min(rate * 1.5, HIGHEST_RATE))

    def _prepare(self, batch: TensorDictBase) -> None:
        """Rewards as they are to be learned from."""
        if self.scaling is not None:
            after = batch.get("next")
            after.set("reward", self.scaling(after.get("reward"), after.get("done")))

    def _learn(self, batch: TensorDictBase) -> tuple[dict[str, float], list[torch.Tensor]]:
        losses: dict[str, torch.Tensor] = {}
        columns: list[torch.Tensor] = []
        for _ in range(self.config.epochs):
            if not columns or self.config.advantages_each_epoch:
                columns = self.update.columns(self._estimate(batch))
            for indices in minibatches(batch.numel(), self.config.minibatch_size, self.config.steps_in_a_row):
                losses = self.update(columns, indices)
        return {name: loss.item() for name, loss in losses.items()}, columns

    def _estimate(self, batch: TensorDictBase) -> TensorDictBase:
        # Where only the time limit ended an episode, the value of what would have followed counts.
        return estimate_advantages(self.advantage, batch, sequence_length=self.config.steps_in_a_row)

    def parts(self) -> dict[str, Any]:
        return {**super().parts(), **({} if self.scaling is None else {"scaling": self.scaling})}


PROGRAM = Program("ppo", "PPO", "Schulman et al. 2017", Config, PPOTraining)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
