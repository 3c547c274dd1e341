"""Trains PPO on any task of this package: ``python -m torchrl_pool.examples.ppo --task HalfCheetah-v5``."""

from __future__ import annotations

import sys
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

from torchrl_pool.examples.actor_training import ActorTraining
from torchrl_pool.examples.networks import actor_and_critic
from torchrl_pool.examples.ppo_settings import FOR_FAMILY, PRESETS, Config
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.recurrent import memory_of
from torchrl_pool.examples.training_run import Row
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    estimate_advantages,
    minibatches,
)

LOWEST_RATE, HIGHEST_RATE = 1e-6, 1e-2  # that a KL divergence moves the learning rate to; rl_games'


class PPOTraining(ActorTraining[Config]):
    """Collects a batch, estimates advantages, learns from minibatches of it, and again.

    Args:
        config: what it depends on.
        folder: where its curve goes.
        compile: whether updates are compiled.
    """

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
        config, memory = self.config, memory_of(self.config)
        # Of batches that they have chosen themselves, the update works out the log-probabilities at once.
        return actor_and_critic(
            env, config.hidden, config.policy, memory=memory, generator=generator, scored=not self.acts_itself
        )

    def advance(self) -> Row:
        """Collects a batch ``[num_envs, steps]`` and learns from it."""
        with self.clock.timed("collecting"):
            batch = self.actors.next(self.iteration)
        self.curve.note_episodes(batch)
        self._anneal()
        with self.clock.timed("training"):
            self._prepare(batch)
            losses, columns = self._learn(batch)
        rate = self.update.optimizer.param_groups[0]["lr"]
        with self.clock.timed("other"):
            figures = self.update.diagnostics(columns)
            self._adapt(figures["kl"])
        return {**figures, "learning_rate": rate, "lag": self.actors.last_lag, **losses}

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
        """Rewards and flags as they are to be learned from."""
        after = batch.get("next")
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))
        if self.scaling is not None:
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

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "update": self.update.state_dict(),
            "scaling": None if self.scaling is None else self.scaling.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.update.load_state_dict(state["update"])
        if self.scaling is not None:
            self.scaling.load_state_dict(state["scaling"])
        super().load_state_dict(state)


PROGRAM = Program("ppo", "PPO", "Schulman et al. 2017", Config, PRESETS, FOR_FAMILY, "classic", PPOTraining)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
