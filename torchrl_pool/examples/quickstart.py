"""Trains PPO on CartPole-v1 and draws the learning curve: ``python -m torchrl_pool.examples.quickstart``.

All but the env is TorchRL's: a pool takes the place of ``ParallelEnv``, and the rest stays as it is.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolEnv
from torchrl_pool.examples import say_what_is_missing
from torchrl_pool.examples.options import Count, NotNegative, Whole, check_limits, expect

try:
    import tyro
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ImportError as error:
    say_what_is_missing(error)

NAME = "torchrl_pool.examples.quickstart"
TASK = "CartPole-v1"
GOAL = 475.0  # mean return over 100 episodes at which it counts as solved
WINDOW = 100  # episodes that a point of the learning curve averages


@dataclass(frozen=True)
class Config:
    """Equal configurations give equal learning curves."""

    seed: Whole = 0  # of networks and simulators
    num_envs: Count = 32  # simulators in the pool
    frames: Count = 160_000  # env steps to train for, rounded up to whole batches
    batch_frames: Count = 2048  # env steps of a batch, rounded up to whole steps of all envs
    minibatch_frames: Count = 512  # env steps that an update learns from
    epochs: Count = 5  # times that each step is learned from
    learning_rate: NotNegative = 3e-3  # at the start; falls to zero
    output: Path = Path("learning_curve.png")  # the picture


@dataclass
class Result:
    """The learning curve of a training, and the returns of its evaluation."""

    frames: list[int] = field(default_factory=list)  # env steps at the end of each batch
    returns: list[float] = field(default_factory=list)  # mean of the last episodes by then; NaN: none yet
    evaluation: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of training

    @property
    def evaluation_mean(self) -> float:
        return fmean(self.evaluation)


def evaluate(policy: ProbabilisticActor, seed: int) -> list[float]:
    """The returns of one episode in each of 100 envs, with the most likely actions."""
    env = PoolEnv(TASK, num_envs=100, seed=seed, info_keys=("episode_reward",))
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(500, policy, break_when_any_done=False, break_when_all_done=True)
    env.close()
    # An env whose episode has ended stands still until all have, so the last step holds every return.
    returns: list[float] = data["next", "episode_reward"][:, -1, 0].tolist()
    return returns


def train(config: Config, progress: bool = True) -> Result:
    """Trains a policy as ``config`` says, evaluates it, and returns its learning curve."""
    torch.set_num_threads(1)  # on which networks this small run fastest
    torch.manual_seed(config.seed)
    env = PoolEnv(TASK, num_envs=config.num_envs, seed=config.seed, info_keys=("episode_reward",))
    policy = ProbabilisticActor(
        TensorDictModule(MLP(4, 2, num_cells=[64, 64]), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,  # PPO compares it with the log-probability under the updated policy
    )
    critic = ValueOperator(MLP(4, 1, num_cells=[64, 64]), in_keys=["observation"])
    advantage = GAE(gamma=0.98, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(policy, critic, clip_epsilon=0.2, entropy_bonus=False, normalize_advantage=True)
    frames_per_batch = math.ceil(config.batch_frames / config.num_envs) * config.num_envs
    num_batches = math.ceil(config.frames / frames_per_batch)
    total_frames = num_batches * frames_per_batch
    optimizer = torch.optim.Adam(loss.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=num_batches)
    collector = Collector(
        env,
        policy,  # the very policy that is trained: there are no weights to send to the collector
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
        auto_register_policy_transforms=False,  # they are for policies with a memory
    )

    result, recent, start = Result(), deque[float](maxlen=WINDOW), time.perf_counter()
    with tqdm(total=total_frames, unit=" frames", unit_scale=True, disable=not progress) as bar:
        for i, data in enumerate(collector, start=1):
            after = data["next"].transpose(0, 1)  # [steps, num_envs]: in the order of time
            recent.extend(after["episode_reward"][after["done"]].tolist())
            for _ in range(config.epochs):
                advantage(data)  # in each epoch, since the critic has changed; needs [num_envs, steps]
                samples = data.reshape(-1)
                for minibatch in samples[torch.randperm(len(samples))].split(config.minibatch_frames):
                    losses = loss(minibatch)
                    optimizer.zero_grad()
                    (losses["loss_objective"] + losses["loss_critic"]).backward()
                    torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                    optimizer.step()
            schedule.step()
            result.frames.append(i * frames_per_batch)
            result.returns.append(fmean(recent) if recent else math.nan)
            bar.update(frames_per_batch)
            bar.set_postfix_str(
                f"mean return {result.returns[-1]:.1f}" if recent else "no episode has ended yet"
            )
    result.seconds = time.perf_counter() - start
    collector.shutdown()
    result.evaluation = evaluate(policy, seed=config.seed + 1)
    return result


def plot(result: Result, config: Config, path: Path) -> None:
    """Draws the learning curve as a PNG."""
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")  # without pyplot: needs no display
    axes = figure.add_subplot()
    axes.axhline(GOAL, color="tab:green", linestyle="--", linewidth=1.2, label=f"goal: {GOAL:.0f}")
    axes.plot(result.frames, result.returns, color="tab:blue", linewidth=2, label="training")
    label = f"evaluation, {len(result.evaluation)} episodes: {result.evaluation_mean:.1f}"
    axes.plot(result.frames[-1:], [result.evaluation_mean], "o", color="tab:orange", label=label)
    axes.set(title=f"PPO on {TASK} ({config.num_envs} envs, seed {config.seed})", ylim=(0, 520))
    axes.set(xlabel="Frames (env steps)", ylabel=f"Mean return of the last {WINDOW} episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    text = f"Trains PPO on {TASK} in a PoolEnv; exits with 1 if 100 episodes have a mean below {GOAL:.0f}."
    config = tyro.cli(Config, prog=f"python -m {NAME}", description=text, args=arguments)
    try:
        check_limits(config)
        folder = config.output.parent
        expect(folder.is_dir(), "output", "a folder that is there", folder)
    except ValueError as error:
        print(f"python -m {NAME}: {error}", file=sys.stderr)
        return 2
    result = train(config)
    plot(result, config, config.output)
    solved = result.evaluation_mean >= GOAL
    print(
        f"Mean return over {len(result.evaluation)} evaluation episodes: {result.evaluation_mean:.1f} "
        f"({'reaches' if solved else 'misses'} the goal of {GOAL:.0f})\n"
        f"{result.frames[-1]} frames in {result.seconds:.1f} s "
        f"({result.frames[-1] / result.seconds:.0f} frames/s); learning curve in {config.output}"
    )
    return 0 if solved else 1


if __name__ == "__main__":
    sys.exit(main())
