"""Trains SAC on tasks with continuous actions: ``python -m torchrl_pool.examples.sac --task Hopper-v5``."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss

from torchrl_pool.examples.envs import pool_of
from torchrl_pool.examples.off_policy import OffPolicySettings, OffPolicyTraining
from torchrl_pool.examples.options import layer_sizes, option
from torchrl_pool.examples.program import Program
from torchrl_pool.training import SACUpdate


@dataclass(frozen=True)
class Config(OffPolicySettings):
    """All that a training depends on: equal configurations give equal weights."""

    task: str = option("HalfCheetah-v5", "a task's id with continuous actions", kept=True)
    num_envs: int = option(1, "simulators in the pool", least=1, kept=True)
    tau: float = option(0.005, "how far the critics' targets go towards them at a time", above=0, most=1)
    alpha_init: float = option(1.0, "temperature, at the start", above=0, kept=True)
    fixed_alpha: bool = option(
        False, "keep it; otherwise entropy is kept at minus the size of an action", kept=True
    )


class LocAndScale(nn.Module):
    """Halves of a network's outputs as a normal distribution's parameters (Haarnoja et al. 2018)."""

    def forward(self, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loc, log_scale = outputs.chunk(2, -1)
        return loc, log_scale.clamp(-20, 2).exp()


class SACTraining(OffPolicyTraining[Config]):
    """Two critics, an actor and a temperature, from a replay buffer."""

    def build(self) -> nn.Module:
        config, pool = self.config, pool_of(self.env)
        actions = pool.action_spec_unbatched
        if not actions.dtype.is_floating_point:
            raise ValueError(f"--task: expected one with continuous actions, got {config.task}")
        if not (actions.space.high.float() - actions.space.low.float()).isfinite().all():
            raise ValueError(f"--task: expected one with bounded actions, got {config.task}")
        spec = pool.observation_spec_unbatched["observation"]
        if not spec.dtype.is_floating_point or len(spec.shape) != 1:
            raise ValueError(f"--task: expected observations that are vectors of floats, got {config.task}")
        observed = spec.shape[-1]
        layers = {"num_cells": layer_sizes(config.hidden), "activation_class": nn.ReLU}
        size = actions.shape[-1]
        network = nn.Sequential(MLP(observed, 2 * size, **layers), LocAndScale())
        actor: nn.Module = ProbabilisticActor(
            TensorDictModule(network, ["observation"], ["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=TanhNormal,
            distribution_kwargs={"low": actions.space.low.float(), "high": actions.space.high.float()},
            return_log_prob=True,
        )
        critic = ValueOperator(MLP(observed + size, 1, **layers), in_keys=["observation", "action"])
        loss = SACLoss(
            actor,
            critic,
            loss_function="l2",
            alpha_init=config.alpha_init,
            fixed_alpha=config.fixed_alpha,
            target_entropy=-float(size),
        )
        loss.make_value_estimator(gamma=config.gamma)
        self.update = SACUpdate(
            loss,
            partial(torch.optim.Adam, lr=config.learning_rate, fused=True),
            tau=config.tau,
            target_every=config.target_every,
            generator=self.generator,
            compile=self.compile or "trace",
        )
        rounds = math.ceil(config.learning_starts / config.frames_per_round)
        self.random_frames = rounds * config.frames_per_round
        self.actor = actor
        return actor


PROGRAM = Program("sac", "SAC", "Haarnoja et al. 2018", Config, SACTraining)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
