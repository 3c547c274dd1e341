"""Trains PPO by self-play: ``python -m torchrl_pool.examples.self_play``.

The learner is the first of two players; the second is played by what the learner was before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from torchrl_pool import PoolCollector, build_plugin
from torchrl_pool.examples import ppo
from torchrl_pool.examples.actors import Actors, Synchronous
from torchrl_pool.examples.networks import mlp
from torchrl_pool.examples.options import option
from torchrl_pool.examples.ppo import PPOTraining
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.results import Row, evaluate
from torchrl_pool.training import flatten_parameters


@dataclass(frozen=True)
class Config(ppo.Config):
    """PPO's settings, and those of choosing opponents."""

    task: str = option(
        "CoinRace-v0", "a task with opponent_observation, and an action for each player", kept=True
    )
    opponents: int = option(20, "past versions that are kept to play against", least=1)
    snapshot_every: int = option(4, "updates after which the learner becomes one of them", least=1)
    test_every: int = option(10, "updates after which it plays against the fixed opponent", least=1)

    def check(self) -> None:
        super().check()
        has_others = self.architecture != "synchronous" or self.actors > 1
        if has_others or self.recurrent != "none" or self.normalize_observations:
            raise ValueError(
                "self_play: expected no --architecture, --actors, --recurrent, --normalize-observations"
            )


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


class SelfPlayTraining(PPOTraining):
    """PPO against past versions of itself, one of them for each batch.

    Its curve tells how it does against them, and ``against_fixed`` the return against an opponent that never
    changes, which it never trains against.
    """

    config: Config

    def __init__(self, config: Config, folder: Path, *, compile: bool = False) -> None:
        super().__init__(config, folder, compile=compile)
        self._opponents = [self.actors.weights()]
        fixed = TensorDictModule(Runner(), ["opponent_observation"], ["opponent_action"])
        own: Any = self.actor
        self.actor = match(own, fixed)  # who is evaluated
        self._against_fixed = math.nan

    def make_networks(
        self, env: EnvBase, generator: torch.Generator | None = None
    ) -> tuple[ProbabilisticActor, TensorDictModule]:
        if "opponent_observation" not in env.observation_spec.keys():  # noqa: SIM118
            raise ValueError(
                f"--task: expected one with an entry 'opponent_observation', got {self.config.task}"
            )
        own = self._player(env, "", "own_action")
        critic = TensorDictModule(self._network(env, 1, 1.0), ["observation"], ["state_value"])
        return own, critic

    def make_actors(self, policy: ProbabilisticActor, steps: int) -> Actors:
        other = self._player(self.env, "opponent_", "opponent_action")
        self._other = flatten_parameters(other.parameters())
        frames = self.config.num_envs * steps
        self.time_steps()
        both = match(policy, other)
        return Synchronous(PoolCollector(self.env, both, frames_per_batch=frames, total_frames=-1), policy)

    def _player(self, env: EnvBase, prefix: str, action: str) -> ProbabilisticActor:
        choices = env.action_spec_unbatched.space.n  # of each player
        return player(self._network(env, choices, 0.01), prefix, action)

    def _network(self, env: EnvBase, outputs: int, gain: float) -> nn.Sequential:
        inputs = env.observation_spec["observation"].shape[-1]
        return mlp([inputs, *map(int, self.config.hidden.split(",")), outputs], nn.Tanh, gain)

    def advance(self) -> Row:
        """Plays a batch against one of the past versions, and learns from the first player's part."""
        config = self.config
        opponent = int(torch.randint(len(self._opponents), ()))
        with torch.no_grad():
            self._other.copy_(self._opponents[opponent])
        figures = super().advance()
        if (self.iteration + 1) % config.snapshot_every == 0:
            self._opponents = [*self._opponents, self.actors.weights()][-config.opponents :]
        if self.iteration % config.test_every == 0:
            with self.clock.timed("other"):
                self._against_fixed = self.test()
        return {**figures, "opponents": len(self._opponents), "against_fixed": self._against_fixed}

    def test(self, episodes: int = 64) -> float:
        """The mean return of as many episodes against the fixed opponent, always from the same starts."""
        env = self.evaluation_env(episodes)
        returns, _ = evaluate(env, self.actor)
        env.close()
        return fmean(returns)

    def state_dict(self) -> dict[str, Any]:
        own = {"opponents": list(self._opponents), "against_fixed": self._against_fixed}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._opponents, self._against_fixed = list(state["opponents"]), state["against_fixed"]
        super().load_state_dict(state)


def build_race() -> None:
    """Compiles the race for coins, once on each machine, and loads it."""
    build_plugin(Path(__file__).with_name("coin_race.cc"))


PROGRAM = Program(
    "self_play", "Self-play", "Bansal et al. 2018", Config, SelfPlayTraining, prepare=build_race
)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
