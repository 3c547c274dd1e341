"""What trainings have in common whose actors may work beside the learner: settings, envs, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from torchrl_pool import PoolCollector
from torchrl_pool.examples.actors import Actor, Actors, Asynchronous, Cleanba, Synchronous
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.settings import Settings, option
from torchrl_pool.examples.training import Training
from torchrl_pool.examples.training_run import plot_lags, time_steps


@dataclass(frozen=True)
class ActorSettings(Settings):
    """Settings of programs whose actors and learner may work beside each other."""

    architecture: str = option(
        "synchronous",
        "whether actors wait for the learner, are one update behind, or do as they can",
        choices=("synchronous", "cleanba", "asynchronous"),
        kept=True,
    )
    actors: int = option(
        1, "threads that collect beside the learner, each with its share of the envs", least=1, kept=True
    )

    @property
    def takes_grids_and_roads(self) -> bool:
        return True

    def check(self) -> None:
        super().check()
        if self.num_envs % self.actors:
            raise ValueError(f"--num-envs: expected a multiple of {self.actors} actors, got {self.num_envs}")
        if self.actors > 1 and self.architecture == "synchronous":
            raise ValueError("--actors: expected 1 with --architecture synchronous")
        if self.actors > 1 and self.normalize_observations:
            raise ValueError("--actors: expected 1 with --normalize-observations, which is one pool's")


A = TypeVar("A", bound=ActorSettings)


class ActorTraining(Training[A], Generic[A]):
    """A training whose batches come from actors; algorithms define :meth:`make_networks`."""

    env: EnvBase
    actors: Actors

    def make_networks(
        self, env: EnvBase, generator: torch.Generator | None = None
    ) -> tuple[ProbabilisticActor, TensorDictModule]:
        """Actor and critic for an env; actions are drawn with the generator, or torch's own."""
        raise NotImplementedError

    @property
    def acts_itself(self) -> bool:
        """Whether batches are chosen by the very networks that then learn from them, unchanged in between."""
        return self.config.architecture == "synchronous"

    def make_env(self, number: int = 0) -> EnvBase:
        """The env of an actor, seeded as if all were in one pool."""
        size = self.config.num_envs // self.config.actors
        return make_env(self.config, size, self.config.seed + number * size)

    def make_actors(self, policy: ProbabilisticActor, steps: int) -> Actors:
        """What collects ``steps`` of each env in a batch for a policy in training; the first has ``env``."""
        config = self.config
        frames = self.env.batch_size[0] * steps
        if self.acts_itself:
            time_steps(pool_of(self.env), self.clock)
            # It acts with the very networks that are trained, so there are no weights to send to it.
            collector = PoolCollector(self.env, policy, frames_per_batch=frames, total_frames=-1)
            return Synchronous(collector, policy)
        actors = [self.make_actor(number, frames) for number in range(config.actors)]
        return (Cleanba if config.architecture == "cleanba" else Asynchronous)(actors, policy)

    def make_actor(self, number: int, frames: int, **options: Any) -> Actor:
        """The actor of that number, whose batches have so many frames; the options are its collector's."""
        env = self.make_env(number) if number else self.env
        generator = torch.Generator()
        acting, _ = self.make_networks(env, generator)
        collector = PoolCollector(
            env, acting, frames_per_batch=frames, total_frames=-1, track_policy_version=True, **options
        )
        generator.manual_seed(self.config.seed + number)  # the collector may have tried the policy
        return Actor(collector, acting, generator)

    def state_dict(self) -> dict[str, Any]:
        actors = self.actors.state_dict()  # first: they may draw until they rest
        return {**super().state_dict(), "actors": actors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.actors.load_state_dict(state["actors"])
        super().load_state_dict(state)

    def evaluation_env(self, num_envs: int, *, films: bool = False) -> EnvBase:
        self.actors.rest()
        return super().evaluation_env(num_envs, films=films)

    def draw(self, folder: Path) -> None:
        if not self.acts_itself:
            plot_lags({self.config.architecture: self.actors.lags}, folder / "lag.png")

    def close(self) -> None:
        super().close()
        self.actors.close()
