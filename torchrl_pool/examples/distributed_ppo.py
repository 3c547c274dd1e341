"""Trains PPO from what several machines collect: ``python -m torchrl_pool.examples.distributed_ppo``."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from torchrl_pool import PoolCollector
from torchrl_pool.examples import ppo, say_what_is_missing
from torchrl_pool.examples.actors import Actors
from torchrl_pool.examples.envs import make_env
from torchrl_pool.examples.networks import actor_and_critic
from torchrl_pool.examples.options import option
from torchrl_pool.examples.ppo import PPOTraining, memory_of
from torchrl_pool.examples.program import Program

try:
    import ray
    from ray.exceptions import ObjectLostError, RayActorError
    from torchrl.collectors.distributed import RayCollector
    from torchrl.collectors.weight_update import RayWeightUpdater
except ImportError as error:
    say_what_is_missing(error, "ray")

ONE_WORKER = {"num_cpus": 1, "num_gpus": 0, "memory": 10**8, "max_restarts": -1}


@dataclass(frozen=True)
class Config(ppo.Config):
    """PPO's settings; envs and frames are those of all workers together."""

    workers: int = option(2, "processes that collect, each with its part of the envs", least=1)
    address: str = option("", "of a Ray cluster; none: one is started on this machine")
    patience: float = option(120.0, "seconds in which workers that died must be back", least=0)

    def check(self) -> None:
        super().check()
        if self.num_envs % self.workers:
            raise ValueError(
                f"--num-envs: expected a multiple of the {self.workers} workers, got {self.num_envs}"
            )
        if self.architecture != "synchronous":
            raise ValueError(f"--architecture: expected synchronous here, got {self.architecture}")
        if self.normalize_observations:
            raise ValueError(
                "--normalize-observations: expected no statistics of observations, which workers do not share"
            )


def make_worker_env(config: Config, seed: int) -> EnvBase:
    """The envs of a worker, which then draws actions of its own, too."""
    torch.manual_seed(seed)
    return make_env(config, config.num_envs, seed)


def make_actor(config: Config) -> ProbabilisticActor:
    """What acts in a worker; made there, since Ray starts workers again only from small arguments."""
    env = make_env(config, 1, config.seed)
    actor, _ = actor_and_critic(env, config.hidden, config.policy, memory=memory_of(config))
    env.close()
    return actor


class PushAndWait(RayWeightUpdater):
    """Sends weights to a worker, and returns when it has them: that it is dead is not overlooked."""

    def _sync_weights_with_worker(self, worker_id: int, server_weights: Any) -> None:
        worker = self.collector.remote_collectors[worker_id]
        ray.get(worker.update_policy_weights_.remote(server_weights))


class RayActors(Actors):
    """Ray's workers, each with a pool and a collector of its own, which get today's weights before a batch.

    Where one dies, Ray starts it again, with new episodes, and the batch is collected again: all that is
    learned from was chosen by the policy that learns.

    Args:
        config: the training's.
        policy: what learns.
        frames: in a batch, of all workers together.
    """

    def __init__(self, config: Config, policy: ProbabilisticActor, frames: int) -> None:
        super().__init__(policy)
        self._patience, self._started_ray = config.patience, not ray.is_initialized()
        if self._started_ray:
            where = {"address": config.address} if config.address else {"num_cpus": config.workers}
            ray.init(**where, include_dashboard=False, log_to_driver=False)
        part = replace(config, num_envs=config.num_envs // config.workers)
        seeds = range(config.seed, config.seed + config.num_envs, part.num_envs)
        weights = TensorDict.from_module(policy).data
        self.collector = RayCollector(
            [partial(make_worker_env, part, seed) for seed in seeds],
            policy_factory=partial(make_actor, part),
            collector_class=PoolCollector,
            frames_per_batch=frames,
            total_frames=sys.maxsize,
            sync=True,
            weight_updater=PushAndWait(weights, [None] * config.workers),
            remote_configs=ONE_WORKER,
        )

    def _next(self, version: int) -> TensorDictBase:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self.collector.update_policy_weights_()
                parts = next(self.collector.iterator())
                return parts.flatten(0, 1)
            except (RayActorError, ObjectLostError):  # a worker or its machine has died, or is not back yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def close(self) -> None:
        self.collector.shutdown()
        if self._started_ray:
            ray.shutdown()


class DistributedPPOTraining(PPOTraining):
    """PPO whose batches come from Ray's workers."""

    config: Config

    def make_actors(self, policy: ProbabilisticActor, steps: int) -> Actors:
        return RayActors(self.config, policy, self.config.num_envs * steps)


PROGRAM = Program(
    "distributed_ppo", "PPO", "Schulman et al. 2017", Config, DistributedPPOTraining, like="ppo"
)

if __name__ == "__main__":
    # Under its own name, not as __main__, so that workers can import what they are sent.
    from torchrl_pool.examples.distributed_ppo import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
