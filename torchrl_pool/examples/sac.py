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
from torchrl_pool.examples.options import (
    Count,
    EnvOptions,
    Kept,
    Limits,
    Needs,
    NotNegative,
    Positive,
    Share,
    Whole,
    expect,
    layer_sizes,
)
from torchrl_pool.examples.program import Program, Run
from torchrl_pool.examples.replay import Replay, Rows, one_step_return, stored_keys, weighted_mean
from torchrl_pool.examples.results import Row
from torchrl_pool.training import TargetUpdate


@dataclass(frozen=True)
class Config(EnvOptions):
    """All that a training depends on: equal configurations give equal weights."""

    task: Kept[str] = "HalfCheetah-v5"  # a task's id with continuous actions
    num_envs: Kept[Count] = 1  # simulators in the pool
    total_frames: Count = 1_000_000  # env steps, in whole --frames-per-row
    frames_per_batch: Kept[Count] = 1  # env steps of all envs in a batch
    updates_per_batch: Count = 1  # updates after each batch, however fast envs and updates are
    parallel: Kept[bool] = False  # collect a batch, with the weights from before, while learning
    learning_starts: Whole = 100  # env steps before the first update
    batch_size: Count = 256  # transitions that an update learns from
    buffer_size: Count = 1_000_000  # transitions that are kept
    save_replay: bool = True  # keep them in checkpoints; else a resume fills a new buffer
    learning_rate: NotNegative = 3e-4  # Adam's
    gamma: Share = 0.99  # discount
    n_steps: Kept[Count] = 1  # rewards added up before a value
    # how far the critics' targets go towards them at a time
    tau: Annotated[float, Limits(above=0, most=1)] = 0.005
    target_every: Count = 1  # updates between two steps of the targets
    priority_alpha: Kept[NotNegative] = 0.0  # power of errors in priorities; 0: none
    # how far weights make up for priorities, at the start; 1 at the end
    priority_beta: Annotated[Share, Needs("priority_alpha")] = 0.4
    hidden: Kept[str] = "256,256"  # units of hidden layers
    frames_per_row: Kept[Count] = 1000  # env steps of a row of the curve
    alpha_init: Kept[Positive] = 1.0  # temperature, at the start
    fixed_alpha: Kept[bool] = False  # keep it, not entropy at minus the action's size

    @property
    def frames_per_round(self) -> int:
        """Env steps of a batch: as many of each env."""
        return math.ceil(self.frames_per_batch / self.num_envs) * self.num_envs

    @property
    def rounds(self) -> int:
        """Batches that a row of the learning curve tells of."""
        return math.ceil(self.frames_per_row / self.frames_per_round)

    @property
    def num_updates(self) -> int:
        left = max(0, self.total_frames - self.learning_starts)
        return math.ceil(left / self.frames_per_round) * self.updates_per_batch

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        starts, batch = self.learning_starts, self.frames_per_round
        before_end = f"less than the {self.total_frames} of --total-frames"
        expect(starts < self.total_frames, "learning_starts", before_end, starts)
        room = f"at least the {batch} steps of a batch"
        expect(self.buffer_size >= batch, "buffer_size", room, self.buffer_size)


def train(config: Config, run: Run) -> Iterator[Row]:
    """Collects a batch, puts it into a replay buffer, makes some updates from there, and again."""
    torch.manual_seed(config.seed)
    generator = torch.Generator(run.storing_device).manual_seed(config.seed)
    env = make_env(config, config.num_envs, config.seed)
    actor, loss = (network.to(run.device) for network in make_networks(config, env))
    update = TargetUpdate(
        loss,
        partial(torch.optim.Adam, lr=config.learning_rate, fused=True),
        keys=stored_keys(config.n_steps),
        followed="critics",
        tau=config.tau,
        target_every=config.target_every,
        compile=run.compile or "trace",
    )
    replay = Replay(
        config.buffer_size,
        generator,
        n_steps=config.n_steps,
        gamma=config.gamma,
        alpha=config.priority_alpha,
        saves_rows=config.save_replay,
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
        done = iteration / run.num_iterations
        beta = config.priority_beta + (1 - config.priority_beta) * done
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
                noise = noise.to(run.device)
                losses, errors = update(
                    *replay.to(run.device, columns, indices),
                    noise,
                    *([] if weights is None else [weights.to(run.device)]),
                )
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
