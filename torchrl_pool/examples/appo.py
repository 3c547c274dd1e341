"""Trains asynchronous PPO: ``python -m torchrl_pool.examples.appo --task HalfCheetah-v5``.

A thread collects batches while the learner, PPO's, learns from those before (Petrenko et al. 2020). Each step
is stamped with the version of the weights that chose it: the number of batches that they have learned from.
Batch n is learned from by weights of version n; its lag is n less its stamps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torchrl.objectives.value import VTrace

from torchrl_pool.examples import population
from torchrl_pool.examples.actors import Threaded, make_actor, make_actor_env
from torchrl_pool.examples.options import Count, Kept, Needs, Share, Whole, expect
from torchrl_pool.examples.ppo import Learner, PPOOptions, make_networks
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.run import Run
from torchrl_pool.training import ReturnScaling, estimate_vtrace


@dataclass(frozen=True)
class Config(PPOOptions):
    """All that a training depends on."""

    max_lag: Whole = 1  # batches that actors may be ahead; 0: no thread
    refreshes: Count = 1  # times in a batch that the newest weights are taken
    double_buffered: bool = False  # step one half of the envs while the policy acts for the other
    vtrace: bool = True  # V-trace's targets and advantages in place of GAE's
    population: Kept[Count] = 1  # policies that train together
    # env steps of each policy between two exchanges of weights
    exchange_frames: Annotated[Count, Needs("population")] = 500_000
    # probability that an exchange changes a hyperparameter
    mutation_rate: Annotated[Share, Needs("population")] = 0.15

    def check(self) -> None:
        super().check()
        each = f"some for each of {self.population} policies"
        expect(self.total_frames >= self.population, "total_frames", each, self.total_frames)
        divisor = f"a divisor of {self.steps} steps"
        expect(self.steps % self.refreshes == 0, "refreshes", divisor, self.refreshes)


def train_one(config: Config, run: Run) -> Iterator[dict[str, float]]:
    """One policy."""
    torch.manual_seed(config.seed)
    env = make_actor_env(config)
    actor, critic = (network.to(run.device) for network in make_networks(config, env))
    learner = Learner(config, actor, critic, compile=run.compile)  # before actors copy: it moves the weights
    vtrace = VTrace(gamma=config.gamma, actor_network=actor, value_network=critic)
    scaling = ReturnScaling(config.num_envs, config.gamma)
    buffered, device = config.double_buffered, run.device
    make = partial(make_actor, make_networks, config, double_buffered=buffered, device=device)
    rollout = env.batch_size[0] * config.steps // config.refreshes
    collecting = [make(number, rollout, None if number else env) for number in range(config.actors)]
    actors = Threaded(collecting, actor, config.max_lag, refreshes=config.refreshes)
    frames = config.steps * config.num_envs
    yield run.begin(env, actor, frames, actors=actors, update=learner.update, scaling=scaling)

    estimate = partial(estimate_vtrace, vtrace) if config.vtrace else None
    for iteration in run.iterations():
        batch = actors.next(iteration)  # [num_envs, steps], and the next one is begun
        run.note(batch)
        if config.normalize_rewards:
            after = batch["next"]
            after["reward"] = scaling(after["reward"], after["done"])
        left = 1 - iteration / run.num_iterations
        # A population changes the settings, which are the run's.
        yield {**learner.learn(run.config, batch, left, estimate), **actors.lag_row}


def train(config: Config, run: Run) -> Iterator[dict[str, float]]:
    """One policy, or a population of them."""
    if config.population > 1:
        return population.train(train_one, config, run)
    return train_one(config, run)


PROGRAM = Program("appo", "APPO", "Petrenko et al. 2020", Config, train)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
