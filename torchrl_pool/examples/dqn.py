"""Trains DQN on tasks with discrete actions: ``python -m torchrl_pool.examples.dqn --task CartPole-v1``."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.data import Categorical
from torchrl.modules import MLP, DistributionalQValueActor, EGreedyModule, QValueActor
from torchrl.objectives import DistributionalDQNLoss, DQNLoss

from torchrl_pool.examples.envs import pool_of
from torchrl_pool.examples.networks import is_picture, nature_cnn, vectors_of
from torchrl_pool.examples.off_policy import OffPolicySettings, OffPolicyTraining
from torchrl_pool.examples.options import layer_sizes, option
from torchrl_pool.examples.program import Program
from torchrl_pool.training import DistributionalDQNUpdate, DQNUpdate


@dataclass(frozen=True)
class Config(OffPolicySettings):
    """All that a training depends on: equal configurations give equal weights."""

    task: str = option("CartPole-v1", "a task's id with discrete actions", kept=True)
    num_envs: int = option(1, "simulators in the pool", least=1, kept=True)
    double: bool = option(False, "the network chooses the next action, its target says its value")
    loss: str = option("l2", "of errors", choices=("l2", "smooth_l1"))
    distributional: bool = option(
        False, "learn how returns are distributed (C51), not their mean alone", kept=True
    )
    atoms: int = option(
        51,
        "returns that a distribution tells the probability of, evenly spaced",
        least=2,
        kept=True,
        needs="distributional",
    )
    value_min: float = option(-10.0, "the least of them", kept=True, needs="distributional")
    value_max: float = option(10.0, "the largest of them", kept=True, needs="distributional")
    epsilon_start: float = option(
        1.0, "probability of a random action, at the start", least=0, most=1, kept=True
    )
    epsilon_end: float = option(0.05, "the same, at the end", least=0, most=1, kept=True)
    epsilon_frames: int = option(250_000, "env steps from the one to the other", least=1, kept=True)
    adam_eps: float = option(1e-8, "Adam's epsilon", least=0, kept=True)

    def check(self) -> None:
        super().check()
        if self.epsilon_end > self.epsilon_start:
            raise ValueError(
                f"--epsilon-end: expected at most the {self.epsilon_start} of --epsilon-start, "
                f"got {self.epsilon_end}"
            )
        if self.value_min >= self.value_max:
            raise ValueError(f"--value-min: expected less than {self.value_max}, got {self.value_min}")
        if self.distributional and (self.double or self.loss != "l2"):
            raise ValueError(
                "--distributional: expected neither --double, which it is, nor --loss, which is cross-entropy"
            )


class DQNTraining(OffPolicyTraining[Config]):
    """The values of all actions, or their distributions, from a replay buffer."""

    def build(self) -> nn.Module:
        config, pool = self.config, pool_of(self.env)
        actions = pool.action_spec_unbatched
        if not isinstance(actions, Categorical):
            raise ValueError(f"--task: expected one with discrete actions, got {config.task}")
        observed = pool.observation_spec_unbatched["observation"]
        loss: DQNLoss | DistributionalDQNLoss
        if config.distributional:
            atoms = config.atoms, actions.n
            network = value_network(observed, math.prod(atoms), config.hidden)
            self.actor = DistributionalQValueActor(
                nn.Sequential(network, nn.Unflatten(-1, atoms), nn.LogSoftmax(-2)),
                torch.linspace(config.value_min, config.value_max, config.atoms),
                spec=actions,
                make_log_softmax=False,
            )
            loss = DistributionalDQNLoss(self.actor, gamma=config.gamma, delay_value=True)
        else:
            network = value_network(observed, actions.n, config.hidden)
            self.actor = QValueActor(network, in_keys=["observation"], spec=actions)
            loss = DQNLoss(
                self.actor,
                loss_function=config.loss,
                delay_value=True,
                double_dqn=config.double,
                action_space="categorical",
            )
            loss.make_value_estimator(gamma=config.gamma)
        self.update = (DistributionalDQNUpdate if config.distributional else DQNUpdate)(
            loss,
            partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True),
            tau=config.tau,
            target_every=config.target_every,
            compile=self.compile or "trace",
        )
        explore = EGreedyModule(
            actions,
            eps_init=config.epsilon_start,
            eps_end=config.epsilon_end,
            annealing_num_steps=config.epsilon_frames,
        )
        policy: nn.Module = TensorDictSequential(self.actor, explore)
        return policy

    def errors_of(self, losses: dict[str, torch.Tensor]) -> torch.Tensor:
        squared = not self.config.distributional  # as DQNLoss tells them; of distributions, cross-entropies
        return losses["td_error"].sqrt() if squared else losses["td_error"]

    def after_batch(self, acting: Any) -> None:
        explore = acting[-1]  # whose step() would go frame by frame
        share = self.config.frames_per_round / explore.annealing_num_steps
        falls_by = share * (explore.eps_init - explore.eps_end)
        explore.eps.copy_(torch.maximum(explore.eps - falls_by, explore.eps_end))


def value_network(observed: Any, num_values: int, hidden: str) -> nn.Module:
    """From observations to numbers of actions."""
    units = layer_sizes(hidden)
    if is_picture(observed):
        return nn.Sequential(
            nature_cnn(observed.shape[0], observed.shape[1], units[0]), nn.Linear(units[0], num_values)
        )
    vectors, size = vectors_of(observed)
    layers = MLP(size, num_values, num_cells=units, activation_class=nn.ReLU)
    return nn.Sequential(*vectors, layers) if vectors else layers


PROGRAM = Program("dqn", "DQN", "Mnih et al. 2015", Config, DQNTraining)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
