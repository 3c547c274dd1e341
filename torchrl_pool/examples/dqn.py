"""Trains DQN on tasks with discrete actions: ``python -m torchrl_pool.examples.dqn --task CartPole-v1``.

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
from typing import Annotated, Any, Literal

import torch
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.data import Categorical
from torchrl.envs import EnvBase
from torchrl.modules import MLP, DistributionalQValueActor, EGreedyModule, QValueActor

from torchrl_pool import PoolCollector
from torchrl_pool.examples.actors import Actor, Actors, Synchronous, Threaded, on_device
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.networks import is_picture, nature_cnn, vectors_of
from torchrl_pool.examples.options import Count, Kept, Limits, Needs, NotNegative, Share, expect, layer_sizes
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

    task: Kept[str] = "CartPole-v1"  # a task's id with discrete actions
    double: bool = False  # the network chooses the next action, its target says its value
    loss: Literal["l2", "smooth_l1"] = "l2"  # of errors
    distributional: Kept[bool] = False  # learn how returns are distributed (C51)
    # returns that a distribution tells the probability of, evenly spaced
    atoms: Kept[Annotated[int, Limits(least=2), Needs("distributional")]] = 51
    value_min: Kept[Annotated[float, Needs("distributional")]] = -10.0  # the least of them
    value_max: Kept[Annotated[float, Needs("distributional")]] = 10.0  # the largest of them
    epsilon_start: Kept[Share] = 1.0  # probability of random actions at first
    epsilon_end: Kept[Share] = 0.05  # the same, at the end
    epsilon_frames: Kept[Count] = 250_000  # env steps from the one to the other
    adam_eps: Kept[NotNegative] = 1e-8  # Adam's epsilon

    def check(self) -> None:
        super().check()
        falling = f"at most the {self.epsilon_start} of --epsilon-start"
        expect(self.epsilon_end <= self.epsilon_start, "epsilon_end", falling, self.epsilon_end)
        expect(self.value_min < self.value_max, "value_min", f"less than {self.value_max}", self.value_min)
        alone = not self.distributional or not (self.double or self.loss != "l2")
        other = "neither --double, which it is, nor --loss, which is cross-entropy"
        expect(alone, "distributional", other, self.distributional)


def train(config: Config, run: Run) -> Iterator[dict[str, float]]:
    """Collects a batch, puts it into a replay buffer, makes some updates from there, and again."""
    torch.manual_seed(config.seed)
    generator = torch.Generator(run.storing_device).manual_seed(config.seed)
    env = make_env(config, config.num_envs, config.seed)
    actor, loss = (network.to(run.device) for network in make_networks(config, env))
    replay = Replay(config, generator)
    update = TargetUpdate(
        loss,
        partial(torch.optim.Adam, lr=config.learning_rate, eps=config.adam_eps, fused=True),
        keys=replay.stored,
        followed="network",
        tau=config.tau,
        target_every=config.target_every,
        compile=run.compile or "trace",
    )
    explore = EGreedyModule(
        pool_of(env).action_spec_unbatched,
        eps_init=config.epsilon_start,
        eps_end=config.epsilon_end,
        annealing_num_steps=config.epsilon_frames,
        device=run.device,
    )
    policy = TensorDictSequential(actor, explore)
    acting = copy.deepcopy(policy) if config.parallel else policy
    collector = PoolCollector(
        env,
        acting,
        frames_per_batch=config.frames_per_round,
        total_frames=-1,
        track_policy_version=config.parallel,
        **on_device(run.device, run.storing_device),
        post_collect_hook=lambda batch: explore_less(acting[-1], config.frames_per_round),
    )
    actors: Actors
    if config.parallel:  # the next batch is collected with today's weights, while the learner changes them
        actors = Threaded([Actor(collector, acting)], policy, 1, exact=True)
    else:
        actors = Synchronous(collector, policy)
    actors.device = run.storing_device
    frames = config.rounds * config.frames_per_round
    yield run.begin(env, actor, frames, actors=actors, update=update, replay=replay)

    columns: list[torch.Tensor] = []
    losses = torch.tensor([math.nan])
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
                more = [] if weights is None else [weights.to(run.device)]
                losses, errors = update(*replay.to(run.device, columns, indices), *more)
                if replay.priorities is not None:
                    replay.priorities.update(indices, errors)
        yield {"buffer": len(replay), "loss": losses.item()}


class ValueLoss(nn.Module):
    """How far the values of actions are from what followed them (Mnih et al. 2015)."""

    def __init__(self, network: nn.Module, config: Config) -> None:
        super().__init__()
        self.network, self.target, self.config = network, copy.deepcopy(network).requires_grad_(False), config

    def forward(self, rows: Rows, weights: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        following = self.target(rows["next", "observation"])
        if self.config.double:  # van Hasselt et al. 2016
            best = self.network(rows["next", "observation"]).detach().argmax(-1, keepdim=True)
            following = following.gather(-1, best).squeeze(-1)
        else:
            following = following.amax(-1)
        target = one_step_return(rows, self.config.gamma, following)
        action = rows["action"].reshape(-1, 1)
        value = self.network(rows["observation"]).gather(-1, action).squeeze(-1)
        distance = {"l2": nn.functional.mse_loss, "smooth_l1": nn.functional.smooth_l1_loss}[self.config.loss]
        errors = distance(value, target, reduction="none")
        return weighted_mean(errors, weights).reshape(1), (value - target).abs()


class DistributionLoss(nn.Module):
    """The cross-entropy of distributions of returns to those that followed them (Bellemare et al. 2017).

    The network chooses the next action by the mean of its distribution, the target says how the return is
    distributed from there; each of its atoms is moved by reward and discount, and its probability is split
    between the two atoms around where it comes to be.
    """

    support: torch.Tensor

    def __init__(self, network: nn.Module, config: Config) -> None:
        super().__init__()
        self.network, self.target, self.config = network, copy.deepcopy(network).requires_grad_(False), config
        support = torch.linspace(config.value_min, config.value_max, config.atoms)
        self.register_buffer("support", support)

    def forward(self, rows: Rows, weights: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        now = self.network(rows["next", "observation"]).detach()  # log-probabilities [n, atoms, actions]
        best = (now.exp() * self.support.unsqueeze(-1)).sum(-2).argmax(-1)
        following = of_action(self.target(rows["next", "observation"]), best).exp()
        moved = one_step_return(rows, self.config.gamma, self.support.unsqueeze(-1)).T
        target = projected(following, moved, self.support)
        log_probs = of_action(self.network(rows["observation"]), rows["action"])
        errors = -(target * log_probs).sum(-1)
        return weighted_mean(errors, weights).reshape(1), errors


def of_action(distributions: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """The distributions ``[n, atoms]`` of some actions ``[n]``, from those of all ``[n, atoms, actions]``."""
    index = action.reshape(-1, 1, 1).expand(-1, distributions.shape[-2], 1)
    return distributions.gather(-1, index).squeeze(-1)


def projected(probabilities: torch.Tensor, moved: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """A distribution over other values, as one over the support with (nearly) the same mean.

    Args:
        probabilities: ``[n, atoms]``.
        moved: what the atoms have become ``[n, atoms]``; those beyond the ends count as the ends.
        support: the atoms, evenly spaced ``[atoms]``.
    """
    low, high, last = support[0], support[-1], support.numel() - 1
    place = (moved.clamp(low, high) - low) * (last / (high - low))
    below = place.floor().clamp_max(last - 1)
    above_share = place - below
    found = torch.zeros_like(probabilities)
    found = found.scatter_add(-1, below.long(), probabilities * (1 - above_share))
    return found.scatter_add(-1, below.long() + 1, probabilities * above_share)


def make_networks(config: Config, env: EnvBase) -> tuple[QValueActor, nn.Module]:
    """The values of all actions, or their distributions, with what is to be made least."""
    pool = pool_of(env)
    actions = pool.action_spec_unbatched
    expect(isinstance(actions, Categorical), "task", "one with discrete actions", config.task)
    observed = pool.observation_spec_unbatched["observation"]
    if not config.distributional:
        network = value_network(observed, actions.n, config.hidden)
        return QValueActor(network, in_keys=["observation"], spec=actions), ValueLoss(network, config)
    atoms = config.atoms, actions.n
    network = nn.Sequential(
        value_network(observed, math.prod(atoms), config.hidden), nn.Unflatten(-1, atoms), nn.LogSoftmax(-2)
    )
    loss = DistributionLoss(network, config)
    actor = DistributionalQValueActor(network, loss.support, spec=actions, make_log_softmax=False)
    return actor, loss


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


def explore_less(explore: Any, frames: int) -> None:
    """What ``explore.step()`` does frame by frame."""
    falls_by = frames / explore.annealing_num_steps * (explore.eps_init - explore.eps_end)
    explore.eps.copy_(torch.maximum(explore.eps - falls_by, explore.eps_end))


PROGRAM = Program("dqn", "DQN", "Mnih et al. 2015", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
