"""Trains PPO on CartPole-v1 and draws the learning curve: ``python -m torchrl_pool.examples.quickstart``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import deque
from collections.abc import Sequence
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
EPISODE_STEPS = 500  # after which CartPole-v1 truncates an episode
GOAL = 475.0  # mean return over 100 episodes at which it counts as solved
EVALUATION_EPISODES = 100
WINDOW = 100  # finished episodes that one point of the learning curve averages


@dataclass(frozen=True)
class Config:
    """All that a training depends on: equal configurations give equal learning curves."""

    seed: int = 0
    num_envs: int = 32
    total_frames: int = 160_000  # rounded up to whole batches
    batch_frames: int = 2048  # rounded up to whole steps of all envs
    minibatch_frames: int = 512
    epochs: int = 5
    learning_rate: float = 3e-3  # at the start; falls to zero
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip_epsilon: float = 0.2
    max_grad_norm: float = 0.5


@dataclass
class Result:
    """The learning curve of a training, and how good the policy was at its end."""

    frames: list[int] = field(default_factory=list)  # env steps taken, at the end of each batch
    returns: list[float] = field(
        default_factory=list
    )  # mean over the last finished episodes by then; NaN: none yet
    evaluation: list[float] = field(default_factory=list)  # return of each evaluation episode
    seconds: float = 0.0  # of training, without the evaluation

    @property
    def evaluation_mean(self) -> float:
        return fmean(self.evaluation)


def make_policy(env: PoolEnv) -> ProbabilisticActor:
    """A network that reads the observation and draws a one-hot action."""
    in_features, out_features = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = MLP(in_features=in_features, out_features=out_features, num_cells=[64, 64])
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,  # PPO compares it with the log-probability under the updated policy
    )


def make_critic(env: PoolEnv) -> ValueOperator:
    """A network that estimates the discounted return that follows an observation."""
    in_features = env.observation_spec["observation"].shape[-1]
    network = MLP(in_features=in_features, out_features=1, num_cells=[64, 64])
    return ValueOperator(network, in_keys=["observation"])


def update(
    data: TensorDictBase, advantage: GAE, loss: ClipPPOLoss, optimizer: torch.optim.Optimizer, config: Config
) -> None:
    """Improves policy and critic on one batch ``[num_envs, steps]``."""
    for _ in range(config.epochs):
        advantage(data)  # anew in each epoch, since the critic has changed; needs the order of time
        samples = data.reshape(-1)
        for minibatch in samples[torch.randperm(len(samples))].split(config.minibatch_frames):
            losses = loss(minibatch)
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"]).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), config.max_grad_norm)
            optimizer.step()


def finished_returns(data: TensorDictBase) -> list[float]:
    """The returns of the episodes that ended in a batch ``[num_envs, steps]``, in the order of time."""
    # The pool itself adds up each episode's rewards (info_keys), which saves the RewardSum transform.
    after = data["next"].transpose(0, 1)
    returns: list[float] = after["episode_reward"][after["done"]].tolist()
    return returns


def evaluate(policy: ProbabilisticActor, seed: int) -> list[float]:
    """The returns of one whole episode in each of 100 envs, played with the likeliest actions."""
    env = PoolEnv(TASK, num_envs=EVALUATION_EPISODES, seed=seed, info_keys=("episode_reward",))
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(EPISODE_STEPS, policy, break_when_any_done=False, break_when_all_done=True)
    env.close()
    # An env whose episode is over stands still until all are done, so the last step holds every return.
    returns: list[float] = data["next", "episode_reward"][:, -1, 0].tolist()
    return returns


def train(config: Config, progress: bool = True) -> Result:
    """Trains a policy as ``config`` says, evaluates it, and returns its learning curve."""
    # Networks this small run fastest on one thread, and no sum then depends on the number of processors.
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    env = PoolEnv(TASK, num_envs=config.num_envs, seed=config.seed, info_keys=("episode_reward",))
    policy, critic = make_policy(env), make_critic(env)
    advantage = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
    loss = ClipPPOLoss(
        policy, critic, clip_epsilon=config.clip_epsilon, entropy_bonus=False, normalize_advantage=True
    )
    frames_per_batch = math.ceil(config.batch_frames / config.num_envs) * config.num_envs
    num_batches = math.ceil(config.total_frames / frames_per_batch)
    total_frames = num_batches * frames_per_batch
    optimizer = torch.optim.Adam(loss.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=num_batches)
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames_per_batch,
        total_frames=total_frames,
        auto_register_policy_transforms=False,  # they are for policies with a memory
    )

    result = Result()
    recent: deque[float] = deque(maxlen=WINDOW)
    start = time.perf_counter()
    with tqdm(total=total_frames, unit=" frames", unit_scale=True, disable=not progress) as bar:
        # The collector acts with the very policy that is trained, so there are no weights to send to it.
        for i, data in enumerate(collector, start=1):
            recent.extend(finished_returns(data))
            update(data, advantage, loss, optimizer, config)
            schedule.step()
            bar.update(frames_per_batch)
            result.frames.append(i * frames_per_batch)
            result.returns.append(fmean(recent) if recent else math.nan)
            bar.set_postfix_str(f"mean return {result.returns[-1]:.1f}")
    result.seconds = time.perf_counter() - start
    collector.shutdown()
    result.evaluation = evaluate(policy, seed=config.seed + 1)
    return result


def plot(result: Result, config: Config, path: Path) -> None:
    """Draws the learning curve as a PNG."""
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")  # without pyplot: needs no display
    axes = figure.add_subplot()
    thousands = [frames / 1000 for frames in result.frames]
    axes.axhline(GOAL, color="tab:green", linestyle="--", linewidth=1.2, label=f"goal: {GOAL:.0f}")
    axes.plot(thousands, result.returns, color="tab:blue", linewidth=2, label="training")
    label = f"evaluation, {len(result.evaluation)} episodes: {result.evaluation_mean:.1f}"
    axes.plot(thousands[-1:], [result.evaluation_mean], "o", color="tab:orange", markersize=8, label=label)
    axes.set_title(f"PPO on {TASK} ({config.num_envs} envs, seed {config.seed})")
    axes.set_xlabel("Frames (thousands of env steps)")
    axes.set_ylabel(f"Mean return of the last {WINDOW} episodes\n(reward per episode)")
    axes.set_xlim(left=0)
    axes.set_ylim(0, EPISODE_STEPS * 1.04)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right")
    figure.savefig(path, format="png")


def positive(text: str) -> int:
    """An option's value that must be at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m torchrl_pool.examples.quickstart",
        description=f"Trains PPO on {TASK} in a PoolEnv and draws the learning curve. "
        f"Exits with 1 if the mean return over {EVALUATION_EPISODES} episodes stays below {GOAL:.0f}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=Config.seed, help="of networks and simulators")
    parser.add_argument("--num-envs", type=positive, default=Config.num_envs, help="simulators in the pool")
    parser.add_argument("--frames", type=positive, default=Config.total_frames, help="env steps to train for")
    parser.add_argument(
        "--output", type=Path, default=Path("learning_curve.png"), metavar="PATH.png", help="the picture"
    )
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error(f"--seed: expected at least 0, got {options.seed}")
    if not options.output.parent.is_dir():
        parser.error(f"--output: there is no folder {options.output.parent}")

    config = Config(seed=options.seed, num_envs=options.num_envs, total_frames=options.frames)
    result = train(config)
    plot(result, config, options.output)
    solved = result.evaluation_mean >= GOAL
    print(
        f"Mean return over {len(result.evaluation)} evaluation episodes: {result.evaluation_mean:.1f} "
        f"({'reaches' if solved else 'misses'} the goal of {GOAL:.0f})\n"
        f"{result.frames[-1]} frames in {result.seconds:.1f} s "
        f"({result.frames[-1] / result.seconds:.0f} frames/s); "
        f"learning curve in {options.output}"
    )
    return 0 if solved else 1


if __name__ == "__main__":
    sys.exit(main())
