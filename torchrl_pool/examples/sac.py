"""Trains SAC on tasks with continuous actions: ``python -m torchrl_pool.examples.sac --task Hopper-v5``.

The algorithm is here from top to bottom: its settings, its networks, its loop. A :class:`Run` saves, between
two iterations, what ``begin`` was given; what ``yield`` gives is a row of the learning curve.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal

from torchrl_pool import PoolCollector
from torchrl_pool.examples.actors import Actor, Actors, Synchronous, Threaded, on_device
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.options import Kept, Limits, Positive, expect, layer_sizes
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.replay import (
    Replay,
    ReplayOptions,
    Rows,
    one_step_return,
    weighted_mean,
)
from torchrl_pool.examples.run import Run
from torchrl_pool.training import TargetUpdate


@dataclass(frozen=True)
class Config(ReplayOptions):
    """All that a training depends on: equal configurations give equal weights."""

    task: Kept[str] = "HalfCheetah-v5"  # a task's id with continuous actions
    tau: Annotated[float, Limits(above=0, most=1)] = 0.005  # how far targets go to the critics at a time
    alpha_init: Kept[Positive] = 1.0  # temperature, at the start
    fixed_alpha: Kept[bool] = False  # keep it, not entropy at minus the action's size


def train(config: Config, run: Run) -> Iterator[dict[str, float]]:
    """Collects a batch, puts it into a replay buffer, makes some updates from there, and again."""
    torch.manual_seed(config.seed)
    generator = torch.Generator(run.storing_device).manual_seed(config.seed)
    env = make_env(config, config.num_envs, config.seed)
    actor, loss = (network.to(run.device) for network in make_networks(config, env))
    replay = Replay(config, generator)
    update = TargetUpdate(
        loss,
        partial(torch.optim.Adam, lr=config.learning_rate, fused=True),
        keys=replay.stored,
        followed="critics",
        tau=config.tau,
        target_every=config.target_every,
        compile=run.compile or "trace",
    )
    batches_at_random = math.ceil(config.learning_starts / config.frames_per_round)
    acting = copy.deepcopy(actor) if config.parallel else actor
    collector = PoolCollector(
        env,
        acting,
        frames_per_batch=config.frames_per_round,
        total_frames=-1,
        init_random_frames=batches_at_random * config.frames_per_round or None,
        track_policy_version=config.parallel,
        **on_device(run.device, run.storing_device),
    )
    actors: Actors
    if config.parallel:  # the next batch is collected with today's weights, while the learner changes them
        actors = Threaded([Actor(collector, acting)], actor, 1, exact=True)
    else:
        actors = Synchronous(collector, actor)
    actors.device = run.storing_device
    frames = config.rounds * config.frames_per_round
    yield run.begin(env, actor, frames, actors=actors, update=update, replay=replay)

    columns: list[torch.Tensor] = []
    losses = torch.full((3,), math.nan)
    for iteration in run.iterations():
        beta = config.beta(iteration / run.num_iterations)
        for _ in range(config.rounds):
            batch = actors.next(update.count)  # [num_envs, steps]
            run.note(batch)
            replay.extend(batch)
            if replay.seen <= config.learning_starts or not len(replay):
                continue
            columns = columns or update.columns(replay.rows)  # the storage stays where it is
            for _ in range(config.updates_per_batch):
                indices, weights = replay.sample(config.batch_size, beta)
                # For the next actions, and for today's.
                shape = 2, config.batch_size, batch["action"].shape[-1]
                noise = torch.randn(shape, generator=generator, device=run.storing_device)
                more = [one.to(run.device) for one in (noise, weights) if one is not None]
                losses, errors = update(*replay.to(run.device, columns, indices), *more)
                if replay.priorities is not None:
                    replay.priorities.update(indices, errors)
        critics, policy, alpha = losses.tolist()
        yield {"buffer": len(replay), "loss_qvalue": critics, "loss_actor": policy, "loss_alpha": alpha}


class SACLoss(nn.Module):
    """What critics, actor and temperature make least (Haarnoja et al. 2018).

    Args:
        critics: of observations and actions, to values ``[n, 1]``.
        network: of observations, to the actor's location and scale.
        low: the actions' bounds.
        high: the same.
        config: the settings.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(
        self,
        critics: nn.ModuleList,
        network: nn.Module,
        low: torch.Tensor,
        high: torch.Tensor,
        config: Config,
    ) -> None:
        super().__init__()
        self.critics, self.target = critics, copy.deepcopy(critics).requires_grad_(False)
        self.network, self.config = network, config
        self.log_alpha = nn.Parameter(torch.tensor(config.alpha_init).log(), not config.fixed_alpha)
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(
        self, rows: Rows, noise: torch.Tensor, weights: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        observed, following = rows["observation"], rows["next", "observation"]
        alpha = self.log_alpha.detach().exp()
        next_action, next_log_prob = self.drawn(following, noise[0], learns=False)
        next_value = torch.stack(values_of(self.target, following, next_action)).amin(0)
        target = one_step_return(rows, self.config.gamma, next_value - alpha * next_log_prob)
        values = values_of(self.critics, observed, rows["action"])
        distances = [nn.functional.mse_loss(value, target, reduction="none") for value in values]
        errors = torch.stack([(value - target).abs() for value in values]).amax(0)

        action, log_prob = self.drawn(observed, noise[1])
        value = torch.stack(values_of(self.critics, observed, action, learn=False)).amin(0)
        entropy = log_prob.detach() - action.shape[-1]  # kept at minus the size of an action
        terms = [torch.stack(distances).sum(0), alpha * log_prob - value, -self.log_alpha * entropy]
        return torch.stack([weighted_mean(term, weights) for term in terms]), errors

    def drawn(
        self, observed: torch.Tensor, noise: torch.Tensor, *, learns: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions ``[n, …]`` made of standard normal numbers, and their log-probabilities ``[n]``."""
        loc, scale = called(self.network, observed, learn=learns)
        before = loc + scale * noise
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        limit = 1 - torch.finfo(before.dtype).resolution
        standard = (before - loc) / scale
        log_prob = -(0.5 * standard * standard + scale.log() + 0.5 * math.log(2 * math.pi)).sum(-1)
        slope = 2 * (math.log(2) - before - nn.functional.softplus(-2 * before)) + half.log()
        return middle + half * before.tanh().clamp(-limit, limit), log_prob - slope.sum(-1)


def called(network: nn.Module, *inputs: torch.Tensor, learn: bool) -> Any:
    """What a network returns, whose weights are constants where they are not to learn from it."""
    if learn:
        return network(*inputs)
    constants = {name: one.detach() for name, one in network.named_parameters()}
    return torch.func.functional_call(network, constants, inputs)


def values_of(
    critics: nn.ModuleList, observed: torch.Tensor, action: torch.Tensor, *, learn: bool = True
) -> list[torch.Tensor]:
    """The values ``[n]`` of actions by each critic."""
    return [called(one, observed, action, learn=learn).squeeze(-1) for one in critics]


class LocAndScale(nn.Module):
    """Halves of a network's outputs as a normal distribution's parameters (Haarnoja et al. 2018)."""

    def forward(self, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loc, log_scale = outputs.chunk(2, -1)
        return loc, log_scale.clamp(-20, 2).exp()


def make_networks(config: Config, env: EnvBase) -> tuple[ProbabilisticActor, SACLoss]:
    """An actor, with what is to be made least of it, two critics and a temperature."""
    pool = pool_of(env)
    actions = pool.action_spec_unbatched
    expect(actions.dtype.is_floating_point, "task", "one with continuous actions", config.task)
    width = actions.space.high.float() - actions.space.low.float()
    expect(bool(width.isfinite().all()), "task", "one with bounded actions", config.task)
    spec = pool.observation_spec_unbatched["observation"]
    is_vector = spec.dtype.is_floating_point and len(spec.shape) == 1
    expect(is_vector, "task", "observations that are vectors of floats", config.task)
    observed = spec.shape[-1]
    layers = {"num_cells": layer_sizes(config.hidden), "activation_class": nn.ReLU}
    size = actions.shape[-1]
    network = nn.Sequential(MLP(observed, 2 * size, **layers), LocAndScale())
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": actions.space.low.float(), "high": actions.space.high.float()},
        return_log_prob=True,
    )
    critics = nn.ModuleList(MLP(observed + size, 1, **layers) for _ in range(2))
    loss = SACLoss(critics, network, actions.space.low.float(), actions.space.high.float(), config)
    return actor, loss


PROGRAM = Program("sac", "SAC", "Haarnoja et al. 2018", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
