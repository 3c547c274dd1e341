"""Trains PPO on CartPole-v1 and draws the learning curve: ``python -m torchrl_pool.examples.quickstart``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolEnv

try:
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ImportError as error:
    raise ImportError(
        f"the examples need {error.name}, which is not installed: pip install torchrl_pool[examples]"
    ) from error

TASK = "CartPole-v1"
GOAL = 475.0  # the mean return at which CartPole-v1 counts as solved
EVALUATION_EPISODES = 100
WINDOW = 100  # finished episodes that one point of the learning curve averages


@dataclass(frozen=True)
class Config:
    """What a training depends on: equal configurations give equal learning curves."""

    seed: int = 0
    num_envs: int = 32
    total_frames: int = 160_000  # rounded up to whole batches
    steps_per_batch: int = 64  # of each env
    epochs: int = 5
    minibatch_size: int = 512
    learning_rate: float = 3e-3
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip_epsilon: float = 0.2
    max_grad_norm: float = 0.5

    @property
    def frames_per_batch(self) -> int:
        return self.num_envs * self.steps_per_batch

    @property
    def num_batches(self) -> int:
        return math.ceil(self.total_frames / self.frames_per_batch)


@dataclass
class Result:
    """The learning curve of a training, and how good the policy was at its end."""

    frames: list[int] = field(default_factory=list)  # env steps taken so far
    returns: list[float] = field(default_factory=list)  # mean return of the last finished episodes by then
    evaluation: list[float] = field(default_factory=list)  # return of each evaluation episode
    seconds: float = 0.0  # of training

    @property
    def evaluation_mean(self) -> float:
        return fmean(self.evaluation)


def make_policy(env: PoolEnv) -> ProbabilisticActor:
    """A network that reads the observation and draws a one-hot action."""
    network = MLP(
        in_features=env.observation_spec["observation"].shape[-1],
        out_features=env.action_spec.shape[-1],
        num_cells=[64, 64],
    )
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,  # PPO compares it with the log-probability under the updated policy
    )


def make_critic(env: PoolEnv) -> ValueOperator:
    """A network that estimates the return from an observation on."""
    in_features = env.observation_spec["observation"].shape[-1]
    return ValueOperator(
        MLP(in_features=in_features, out_features=1, num_cells=[64, 64]), in_keys=["observation"]
    )


def returns_of_finished(data: TensorDictBase) -> list[float]:
    """The returns of the episodes that ended in ``data``, in the order of time."""
    following = data["next"].transpose(0, 1)  # [env, time] -> [time, env]
    returns: list[float] = following["episode_reward"][following["done"]].tolist()
    return returns


def evaluate(policy: ProbabilisticActor, seed: int) -> list[float]:
    """Plays one whole episode in each of 100 envs, always with the likeliest action."""
    env = PoolEnv(TASK, num_envs=EVALUATION_EPISODES, seed=seed, info_keys=("episode_reward",))
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(500, policy, break_when_any_done=False, break_when_all_done=True)
    env.close()
    returns: list[float] = data["next", "episode_reward"][:, -1, 0].tolist()
    return returns


def train(config: Config, progress: bool = True) -> Result:
    """Trains a policy as ``config`` says and evaluates it."""
    # Networks this small run fastest on one thread, and their sums then have one order on every machine.
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    env = PoolEnv(TASK, num_envs=config.num_envs, seed=config.seed, info_keys=("episode_reward",))
    policy, critic = make_policy(env), make_critic(env)
    advantage = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
    loss = ClipPPOLoss(
        policy,
        critic,
        clip_epsilon=config.clip_epsilon,
        entropy_bonus=False,
        normalize_advantage=True,
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, start_factor=1.0, end_factor=0.0, total_iters=config.num_batches
    )
    total_frames = config.num_batches * config.frames_per_batch
    collector = Collector(env, policy, frames_per_batch=config.frames_per_batch, total_frames=total_frames, auto_register_policy_transforms=False)

    result = Result()
    recent: deque[float] = deque(maxlen=WINDOW)
    start = time.perf_counter()
    with tqdm(total=total_frames, unit=" frames", unit_scale=True, disable=not progress) as bar:
        for data in collector:  # [num_envs, steps_per_batch]
            recent.extend(returns_of_finished(data))
            for _ in range(config.epochs):
                with torch.no_grad():
                    advantage(data)
                samples = data.reshape(-1)
                for batch in samples[torch.randperm(len(samples))].split(config.minibatch_size):
                    losses = loss(batch)
                    total = losses["loss_objective"] + losses["loss_critic"]
                    optimizer.zero_grad()
                    total.backward()
                    torch.nn.utils.clip_grad_norm_(loss.parameters(), config.max_grad_norm)
                    optimizer.step()
            schedule.step()
            bar.update(data.numel())
            if recent:
                result.frames.append(bar.n)
                result.returns.append(fmean(recent))
                bar.set_postfix({"mean return": f"{result.returns[-1]:.1f}"})
    collector.shutdown()
    result.seconds = time.perf_counter() - start
    result.evaluation = evaluate(policy, seed=config.seed + 1)
    return result

if __name__ == "__main__":
    for seed in map(int, sys.argv[1].split(",")):
        r = train(Config(seed=seed), progress=False)
        print(seed, r.evaluation_mean, min(r.evaluation), len(r.evaluation), r.returns[9::10], r.seconds, flush=True)
