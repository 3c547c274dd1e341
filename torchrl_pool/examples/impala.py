"""Trains IMPALA on any task of this package: ``python -m torchrl_pool.examples.impala``."""

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
from torchrl.objectives import A2CLoss

from torchrl_pool.examples.actor_training import ActorTraining
from torchrl_pool.examples.impala_settings import FOR_FAMILY, PRESETS, Config
from torchrl_pool.examples.networks import actor_and_critic, impala_resnet
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.training_run import Row
from torchrl_pool.training import VTraceUpdate


class IMPALATraining(ActorTraining[Config]):
    """Actors collect, the learner corrects for their older weights by V-trace (Espeholt et al. 2018).

    Args:
        config: what it depends on.
        folder: where its curve goes.
        compile: is ignored: its update is not compiled.
    """

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
        self.curve.note_episodes(batch)
        rate = self.config.learning_rate
        if self.config.anneal_learning_rate:
            rate *= 1 - self.iteration / self.num_iterations
        self.update.optimizer.param_groups[0]["lr"] = rate
        with self.clock.timed("training"):
            losses = self._learn(batch)
        return {"learning_rate": rate, "lag": self.actors.last_lag, **losses}

    def _learn(self, batch: TensorDictBase) -> dict[str, float]:
        after = batch.get("next")
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))
        losses: dict[str, torch.Tensor] = {}
        for minibatch in batch.chunk(self.config.minibatches):
            losses = self.update(*minibatch.chunk(self.config.gradient_accumulation))
        return {name: loss.item() for name, loss in losses.items()}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "update": self.update.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.update.load_state_dict(state["update"])
        super().load_state_dict(state)


PROGRAM = Program(
    "impala", "IMPALA", "Espeholt et al. 2018", Config, PRESETS, FOR_FAMILY, "classic", IMPALATraining
)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
