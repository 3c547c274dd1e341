"""Trains IMPALA on any task of this package: ``python -m torchrl_pool.examples.impala``.

The algorithm is here from top to bottom: its settings, its networks, its loop. A :class:`Run` saves, between
two iterations, what ``begin`` was given; what ``yield`` gives is a row of the learning curve.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.nn.functional import mse_loss
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from torchrl_pool.examples.actors import Actors, begin_actors, check_actors, make_actor_env
from torchrl_pool.examples.networks import actor_and_critic, impala_resnet
from torchrl_pool.examples.options import (
    Count,
    EnvOptions,
    Kept,
    NotNegative,
    Positive,
    Share,
    expect,
    layer_sizes,
)
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.run import Run
from torchrl_pool.training import flatten_parameters, vtrace_targets


@dataclass(frozen=True)
class Config(EnvOptions):
    """All that a training depends on: but for asynchronous ones, equal configurations give equal weights."""

    # whether actors wait for the learner, are one update behind, or up to two
    architecture: Kept[Literal["synchronous", "cleanba", "asynchronous"]] = "cleanba"
    actors: Kept[Count] = 1  # that collect at once, each with its share of the envs
    num_envs: Kept[Count] = 32  # simulators, of all actors together
    steps: Kept[Count] = 20  # of each env in a batch
    minibatches: Count = 4  # that the envs of a batch are split into, one update each
    gradient_accumulation: Count = 1  # parts of a minibatch, looked at one after the other
    learning_rate: NotNegative = 6e-4  # RMSprop's, at the start
    anneal_learning_rate: bool = True  # down to zero at the end
    rmsprop_alpha: Kept[Share] = 0.99  # RMSprop's smoothing
    rmsprop_eps: Kept[NotNegative] = 0.01  # RMSprop's epsilon, outside of the root
    gamma: Share = 0.99  # discount
    rho_clip: Positive = 1.0  # V-trace's largest weight of an error
    c_clip: Positive = 1.0  # V-trace's largest weight of those that follow
    loss_reduction: Literal["sum", "mean"] = "sum"  # over the steps of a minibatch
    value_coef: NotNegative = 0.25  # of the squared error of values (Cleanba's vf_coef: twice that)
    entropy_coef: NotNegative = 0.01  # of the policy's entropy
    max_grad_norm: NotNegative = 40.0  # gradients are clipped to it; 0: they are not
    hidden: Kept[str] = "64,64"  # units of hidden layers, but for pictures

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
        expect(
            self.num_envs % parts == 0, "num_envs", f"a multiple of {parts} parts of a batch", self.num_envs
        )


def make_networks(
    config: Config, env: EnvBase, generator: torch.Generator | None = None
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
    return actor_and_critic(env, config.hidden, "normal", pictures=impala_resnet, generator=generator)


def train(
    config: Config, run: Run, begin_actors: Callable[..., Actors] = begin_actors
) -> Iterator[dict[str, float]]:
    """Actors collect, the learner corrects for their older weights by V-trace (Espeholt et al. 2018)."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    actor, critic = (network.to(run.device) for network in make_networks(config, env))
    update = Update(actor, critic, config)  # before actors copy the policy: it moves the weights
    actors = begin_actors(config, env, actor, make_networks, config.steps)
    yield run.begin(env, actor, config.num_envs * config.steps, actors=actors, update=update)

    for iteration in run.iterations():
        optimizer = update.optimizer.param_groups[0]
        batch = actors.next(iteration)  # [num_envs, steps]
        run.note(batch)
        left = 1 - iteration / run.num_iterations if config.anneal_learning_rate else 1.0
        optimizer["lr"] = config.learning_rate * left
        for minibatch in batch.chunk(config.minibatches):
            losses = update(minibatch.chunk(config.gradient_accumulation))
        yield {"learning_rate": optimizer["lr"], **actors.lag_row, **losses}


class Update:
    """An update with a minibatch of whole envs: V-trace, the losses' gradient, clipped, and RMSprop's step.

    All weights are one tensor, which clipping and the optimizer go through at once.
    """

    def __init__(self, actor: ProbabilisticActor, critic: TensorDictModule, config: Config) -> None:
        self.config, self.critic, self.distribution = config, layers_of(critic), actor.module[-1]
        self.networks = list(dict.fromkeys([*layers_of(actor.module[0]), *self.critic]))
        self.weights = flatten_parameters(nn.ModuleList(self.networks).parameters())
        self.optimizer = torch.optim.RMSprop(
            [self.weights], lr=config.learning_rate, alpha=config.rmsprop_alpha, eps=config.rmsprop_eps
        )

    def __call__(self, parts: tuple[TensorDictBase, ...]) -> dict[str, float]:
        """Learns from the parts ``[n, T]`` of a minibatch; returns the parts' mean losses."""
        gradient: Any = self.weights.grad
        gradient.zero_()
        total = torch.zeros_like(gradient[:3])
        for part in parts:
            losses = self.losses(part) / len(parts)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            total += losses.detach()
        if self.config.max_grad_norm:
            norm = torch.linalg.vector_norm(gradient)
            gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp_max(1.0))
        self.optimizer.step()
        return dict(zip(("loss_objective", "loss_critic", "loss_entropy"), total.tolist(), strict=True))

    def losses(self, steps: TensorDictBase) -> torch.Tensor:
        """The three terms, weighted, of the steps of some envs ``[n, T]``."""
        config, shape = self.config, steps.shape
        found = called(self.networks, steps, lambda column: column.flatten(0, 1))
        parameters = {key: found[key] for key in self.distribution.in_keys}
        distribution = self.distribution.distribution_class(**parameters, validate_args=False)
        log_prob = distribution.log_prob(steps["action"].flatten(0, 1)).view(shape)
        value = found["state_value"].view(shape)
        after = steps.get("next")
        with torch.no_grad():
            advantage, target = vtrace_targets(
                log_prob - steps["action_log_prob"],
                value,
                self.next_value(steps, value),
                *(after.get(key).squeeze(-1) for key in ("reward", "done", "terminated")),
                gamma=config.gamma,
                rho_clip=config.rho_clip,
                c_clip=config.c_clip,
            )
        objective = -log_prob * advantage
        critic = config.value_coef * mse_loss(value, target, reduction="none")
        bonus = torch.zeros_like(critic)
        if config.entropy_coef:
            bonus = -config.entropy_coef * distribution.entropy().view(shape)
        terms = torch.stack([objective, critic, bonus])
        return terms.sum((1, 2)) if config.loss_reduction == "sum" else terms.mean((1, 2))

    def next_value(self, steps: TensorDictBase, value: torch.Tensor) -> torch.Tensor:
        """The value of the observation that followed each step: mostly the one that the next step has."""
        after, following = steps.get("next"), torch.cat([value[:, 1:], value[:, -1:]], 1)
        cut = after.get("done").squeeze(-1).clone()  # where no next step has the observation
        cut[:, -1] = True
        found = called(self.critic, after, lambda column: column[cut])
        following[cut] = found["state_value"].squeeze(-1)
        return following

    def state_dict(self) -> dict[str, Any]:
        return {"parameters": self.weights.detach().clone(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            self.weights.copy_(state["parameters"])
        self.optimizer.load_state_dict(state["optimizer"])


def layers_of(module: TensorDictModule) -> list[TensorDictModule]:
    """The networks of an actor or a critic, in the order of their calls."""
    return list(module.module) if isinstance(module, TensorDictSequential) else [module]


def called(
    networks: list[TensorDictModule], steps: TensorDictBase, rows_of: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What networks make of some rows of the steps, as plain tensors, which cost less than tensordicts."""
    found: dict[str, torch.Tensor] = {}
    for one in networks:
        inputs = [found[key] if key in found else rows_of(steps.get(key)) for key in one.in_keys]
        results = one.module(*inputs)
        found.update(zip(one.out_keys, results if isinstance(results, tuple) else (results,), strict=True))
    return found


PROGRAM = Program("impala", "IMPALA", "Espeholt et al. 2018", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
