"""Trains PPO on CartPole-v1 until it is solved: ``torchrl-pool demo``. Needs no other package."""

from __future__ import annotations

import csv
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from tensordict.nn import TensorDictModule
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool.training import PPOUpdate, estimate_advantages, minibatches

TASK, NUM_ENVS = "CartPole-v1", 32
GOAL = 475.0  # mean return of the last 100 episodes at which it counts as solved
WINDOW = 100
FRAMES_PER_BATCH, MOST_FRAMES = 2048, 200 * 2048
EPOCHS, MINIBATCH = 5, 512
LEARNING_RATE, ANNEALED_OVER = 3e-3, 160_000
BAR, BATCHES_A_LINE = 40, 5
WHAT_NEXT = """\
What to try next:
  torchrl-pool list                          all tasks
  torchrl-pool info HalfCheetah-v5           what one of them shows and takes
  pip install 'torchrl_pool[examples]'       for the programs that train
  python -m torchrl_pool.examples.ppo --task HalfCheetah-v5
The program that has just run: """


class Point(NamedTuple):
    """A point of the learning curve."""

    frames: int  # env steps so far
    seconds: float  # of training
    mean_return: float  # of the last episodes that had ended by then; NaN: none yet


def learn(seed: int) -> Iterator[Point]:
    """Trains with PPO until CartPole is solved, or for 409,600 steps; yields a point after each batch."""
    torch.manual_seed(seed)
    env = PoolEnv(TASK, NUM_ENVS, seed=seed, info_keys=("episode_reward",))
    actor = ProbabilisticActor(
        TensorDictModule(MLP(4, 2, num_cells=[64, 64]), ["observation"], ["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(4, 1, num_cells=[64, 64]), in_keys=["observation"])
    advantage = GAE(gamma=0.98, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_bonus=False, normalize_advantage=True)
    adam = partial(torch.optim.Adam, lr=LEARNING_RATE, fused=True)
    update = PPOUpdate(loss, adam, max_grad_norm=0.5)
    collector = PoolCollector(env, actor, frames_per_batch=FRAMES_PER_BATCH, total_frames=MOST_FRAMES)

    returns: deque[float] = deque(maxlen=WINDOW)
    frames, start = 0, time.perf_counter()
    for batch in collector:
        assert batch is not None  # no replay buffer takes it
        after = batch.get("next")
        done = after.get("done").transpose(0, 1)  # in the order of time
        returns.extend(after.get("episode_reward").transpose(0, 1)[done].tolist())
        for _ in range(EPOCHS):
            columns = update.columns(estimate_advantages(advantage, batch))
            for indices in minibatches(batch.numel(), MINIBATCH):
                update(columns, indices)
        frames += batch.numel()
        left = max(1 - frames / ANNEALED_OVER, 0.05)
        update.optimizer.param_groups[0]["lr"] = LEARNING_RATE * left
        mean_return = fmean(returns) if returns else math.nan
        yield Point(frames, time.perf_counter() - start, mean_return)
        if len(returns) == WINDOW and mean_return >= GOAL:
            break
    collector.shutdown()


def main(output: Path, seed: int = 0) -> int:
    """Trains, shows how it goes and leaves the learning curve.

    Args:
        output: a CSV file; a picture goes next to it, where matplotlib is installed.
        seed: of networks and simulators.

    Returns:
        The exit status: 1 if CartPole was not solved.

    Raises:
        OSError: the file cannot be written.
    """
    points: list[Point] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on which networks this small run fastest
    print(f"PPO on {TASK}, {NUM_ENVS} envs; solved at a mean return of {GOAL:.0f} over {WINDOW} episodes")
    try:
        with output.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Point._fields)
            for number, point in enumerate(learn(seed)):
                points.append(point)
                writer.writerow(point)
                if number % BATCHES_A_LINE == 0 or point.mean_return >= GOAL:
                    _show(point)
    finally:
        torch.set_num_threads(threads)
    last = points[-1]
    is_solved = last.mean_return >= GOAL
    print(
        f"{'Solved' if is_solved else 'Not solved'}: {last.frames:,} steps in {last.seconds:.1f} s, learning "
        f"included. Learning curve: {output.resolve()}{_picture(points, output.with_suffix('.png'))}\n"
    )
    print(WHAT_NEXT + __file__)
    return 0 if is_solved else 1


def _show(point: Point) -> None:
    filled = 0 if math.isnan(point.mean_return) else round(BAR * point.mean_return / 500)
    print(
        f"{point.frames:9,} steps {point.seconds:5.1f} s {point.mean_return:6.1f}  "
        f"{'#' * filled}{'.' * (BAR - filled)}",
        flush=True,
    )


def _picture(points: Sequence[Point], path: Path) -> str:
    """Draws the learning curve, and says where it is; nothing, without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    axes = (figure := Figure(layout="constrained")).add_subplot()  # without pyplot: needs no display
    axes.plot([point.frames for point in points], [point.mean_return for point in points])
    axes.axhline(GOAL, linestyle="--")
    axes.set(title=f"PPO on {TASK}", xlabel="steps of all envs", ylabel=f"mean return of {WINDOW} episodes")
    figure.savefig(path, format="png")
    return f", {path.resolve()}"
