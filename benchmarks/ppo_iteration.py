"""Where the time of a PPO iteration goes: env step, inference, training, other.

EnvPool's figure 4 (Weng et al. 2022), for TorchRL's Collector with a ParallelEnv of GymEnvs, the same with a
PoolEnv, and PoolCollector. Their iterations take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictModuleBase
from throughput import machine_line, save, torchrl_env
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, ParallelEnv
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolCollector, PoolEnv, _core
from torchrl_pool._tables import print_table

PARTS = ("env step", "inference", "training", "other")


class Clock:
    """Seconds spent in functions that are wrapped with it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return wrapper


class Training:
    """PPO on continuous actions: what one iteration does, and how long each part takes."""

    def __init__(self, collector: Callable[..., Collector], env: EnvBase, frames: int) -> None:
        self.stepping, self.inference = Clock(), Clock()
        # Where a collector steps the pool itself, stepping is all of collecting but inference.
        self.steps_through_env = collector is Collector
        if self.steps_through_env:
            env.step_and_maybe_reset = self.stepping.timed(env.step_and_maybe_reset)
        features, actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
        network = nn.Sequential(
            _Float(), MLP(features, 2 * actions, num_cells=[64, 64], activation_class=nn.Tanh)
        ).append(NormalParamExtractor())
        actor = ProbabilisticActor(
            TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=TanhNormal,
            distribution_kwargs={
                "low": env.action_spec.space.low[0],
                "high": env.action_spec.space.high[0],
            },
            return_log_prob=True,
        )
        critic = ValueOperator(
            nn.Sequential(_Float(), MLP(features, 1, num_cells=[64, 64], activation_class=nn.Tanh)),
            in_keys=["observation"],
        )
        self.advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
        self.loss = ClipPPOLoss(actor, critic, entropy_bonus=False, normalize_advantage=True)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=3e-4)
        policy = _Timed(actor, self.inference)
        self.collector = collector(
            env, policy, frames_per_batch=frames, total_frames=-1, auto_register_policy_transforms=False
        )
        self.batches = iter(self.collector)

    def iteration(self) -> dict[str, float]:
        """Collects a batch, learns from it, and returns the seconds of each part."""
        self.stepping.seconds = self.inference.seconds = 0.0
        start = time.perf_counter()
        data = next(self.batches)
        collected = time.perf_counter()
        self._update(data)
        end = time.perf_counter()
        inference = self.inference.seconds
        stepping = self.stepping.seconds if self.steps_through_env else collected - start - inference
        return {
            "env step": stepping,
            "inference": inference,
            "training": end - collected,
            "other": collected - start - stepping - inference,
        }

    def _update(self, data: TensorDictBase) -> None:
        for _ in range(4):
            self.advantage(data)
            samples = data.reshape(-1)
            for minibatch in samples[torch.randperm(len(samples))].split(512):
                losses = self.loss(minibatch)
                self.optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                self.optimizer.step()


class _Float(nn.Module):
    """MuJoCo observes in float64; networks are float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float()


class _Timed(TensorDictModuleBase):
    """A policy that tells a clock how long it takes."""

    def __init__(self, policy: nn.Module, clock: Clock) -> None:
        super().__init__()
        self.policy = policy
        self.in_keys, self.out_keys = policy.in_keys, policy.out_keys
        self.call = clock.timed(policy.__call__)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.call(tensordict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="HalfCheetah-v5", help="a task with continuous actions")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-threads", type=int, default=_core.available_cpus())
    parser.add_argument("--frames", type=int, default=2048, help="per iteration")
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    task, n = parsed.task, parsed.num_envs
    pool = partial(PoolEnv, task, n, num_threads=parsed.num_threads)
    trainings = {
        "Collector + ParallelEnv": Training(
            Collector, ParallelEnv(n, partial(torchrl_env, task), mp_start_method="fork"), parsed.frames
        ),
        "Collector + PoolEnv": Training(Collector, pool(), parsed.frames),
        "PoolCollector": Training(PoolCollector, pool(), parsed.frames),
    }
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in trainings}
    for i in range(parsed.iterations + 2):
        for name, training in trainings.items():
            parts = training.iteration()
            if i >= 2:  # warm-up
                samples[name].append(parts)
    for training in trainings.values():
        training.collector.shutdown()

    medians = {
        name: {part: statistics.median(sample[part] for sample in taken) for part in PARTS}
        for name, taken in samples.items()
    }
    print(f"{machine_line()}\n\n{task}, {n} envs, {parsed.frames} frames: ms of an iteration (medians)")
    rows = [
        [name, *(f"{parts[part] * 1e3:,.1f}" for part in PARTS), f"{sum(parts.values()) * 1e3:,.1f}"]
        for name, parts in medians.items()
    ]
    print_table(["", *PARTS, "all"], rows, numbers=len(PARTS) + 1)
    print("PoolCollector's env step includes storing: the pool writes into the batch.")
    results = {"task": task, "num_envs": n, "frames": parsed.frames, "seconds": medians}
    save(parsed.json, results)


if __name__ == "__main__":
    main()
