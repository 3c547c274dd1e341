"""Trains PPO by self-play: ``python -m torchrl_pool.examples.self_play``.

The learner is the first of two players; the second is played by what the learner was before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import ProbabilisticActor

from torchrl_pool import PoolCollector, build_plugin
from torchrl_pool.examples.actors import Synchronous
from torchrl_pool.examples.envs import make_env
from torchrl_pool.examples.networks import mlp
from torchrl_pool.examples.options import Count, Kept, expect, layer_sizes
from torchrl_pool.examples.ppo import Learner, UpdateOptions
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import evaluate
from torchrl_pool.examples.run import Run
from torchrl_pool.training import flatten_parameters


@dataclass(frozen=True)
class Config(UpdateOptions):
    """All that a training depends on: equal configurations give equal weights."""

    task: Kept[str] = "CoinRace-v0"  # a game of two players
    opponents: Count = 20  # past versions that are kept to play against
    snapshot_every: Count = 4  # updates after which the learner becomes one of them
    test_every: Count = 10  # updates after which it plays against the fixed opponent

    def check(self) -> None:
        super().check()
        statistics = "none, which would not be the same for both players"
        expect(not self.normalize_observations, "normalize_observations", statistics, True)


class Runner(nn.Module):
    """The fixed opponent: runs towards the coin, first along the longer way."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        x, y = observation[..., 0], observation[..., 1]
        along_x, along_y = torch.where(x > 0, 2, 1), torch.where(y > 0, 4, 3)
        return torch.where(x.abs() > y.abs(), along_x, along_y)


def player(network: nn.Module, prefix: str, action: str) -> ProbabilisticActor:
    """A policy for one of the players: draws an action from the logits of a network."""
    logits = TensorDictModule(network, [f"{prefix}observation"], [f"{prefix}logits"])
    return ProbabilisticActor(
        logits,
        in_keys={"logits": f"{prefix}logits"},
        out_keys=[action],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
        log_prob_key=f"{action}_log_prob",
    )


def match(own: nn.Module, other: nn.Module) -> TensorDictSequential:
    """Both players as one policy for the env."""
    join: Callable[..., torch.Tensor] = lambda *actions: torch.stack(actions, -1)  # noqa: E731
    return TensorDictSequential(
        own, other, TensorDictModule(join, ["own_action", "opponent_action"], ["action"])
    )


class Opponents:
    """Past versions of the learner.

    Args:
        first: weights.
        most: versions that are kept.
    """

    def __init__(self, first: torch.Tensor, most: int) -> None:
        self._versions, self._most = [first], most
        self.against_fixed = math.nan  # the learner's return in its last test

    def draw(self) -> torch.Tensor:
        """The weights of one of them."""
        return self._versions[int(torch.randint(len(self._versions), ()))]

    def add(self, weights: torch.Tensor) -> None:
        self._versions = [*self._versions, weights][-self._most :]

    def __len__(self) -> int:
        return len(self._versions)

    def state_dict(self) -> dict[str, Any]:
        return {"versions": list(self._versions), "against_fixed": self.against_fixed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._versions, self.against_fixed = list(state["versions"]), state["against_fixed"]


def train(config: Config, run: Run) -> Iterator[dict[str, float]]:
    """PPO against past versions of itself, one of them for each batch.

    The curve tells how it does against them, and ``against_fixed`` the return against an opponent that never
    changes, which it never trains against.
    """
    torch.manual_seed(config.seed)
    env = make_env(config, config.num_envs, config.seed)
    is_game = "opponent_observation" in env.observation_spec.keys()  # noqa: SIM118
    expect(is_game, "task", "one with an entry 'opponent_observation'", config.task)
    inputs = env.observation_spec["observation"].shape[-1]
    choices = env.action_spec_unbatched.space.n  # of each player
    layers = [inputs, *layer_sizes(config.hidden)]
    own = player(mlp([*layers, choices], nn.Tanh, 0.01), "", "own_action")
    critic = TensorDictModule(mlp([*layers, 1], nn.Tanh, 1.0), ["observation"], ["state_value"])
    learner = Learner(config, own, critic, compile=run.compile)
    other = player(mlp([*layers, choices], nn.Tanh, 0.01), "opponent_", "opponent_action")
    other_weights = flatten_parameters(other.parameters())
    frames = config.steps * config.num_envs
    collector = PoolCollector(env, match(own, other), frames_per_batch=frames, total_frames=-1)
    actors = Synchronous(collector, own)
    opponents = Opponents(actors.weights(), config.opponents)
    fixed = TensorDictModule(Runner(), ["opponent_observation"], ["opponent_action"])
    evaluated = match(own, fixed)
    yield run.begin(env, evaluated, frames, actors=actors, update=learner.update, opponents=opponents)

    for iteration in run.iterations():
        with torch.no_grad():
            other_weights.copy_(opponents.draw())
        batch = actors.next(iteration)  # [num_envs, steps]
        run.note(batch)
        figures = learner.learn(config, batch, 1 - iteration / run.num_iterations)
        if (iteration + 1) % config.snapshot_every == 0:
            opponents.add(actors.weights())
        if iteration % config.test_every == 0:
            opponents.against_fixed = mean_return(run, evaluated)
        yield {**figures, "opponents": len(opponents), "against_fixed": opponents.against_fixed}


def mean_return(run: Run, policy: TensorDictSequential, episodes: int = 64) -> float:
    """Of as many episodes against the fixed opponent, always from the same starts."""
    with closing(run.evaluation_env(episodes)) as env:
        returns, _ = evaluate(env, policy)
    return fmean(returns)


def build_race() -> None:
    """Compiles the race for coins, once on each machine, and loads it."""
    build_plugin(Path(__file__).with_name("coin_race.cc"))


PROGRAM = Program("self_play", "Self-play", "Bansal et al. 2018", Config, train, prepare=build_race)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
