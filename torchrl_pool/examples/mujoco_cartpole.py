"""A cart-pole in ten lines, and PPO that solves it: ``python -m torchrl_pool.examples.mujoco_cartpole``."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.envs import ClipTransform, Compose, RewardSum, TransformedEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import MujocoPool, PoolCollector
from torchrl_pool.training import PPOUpdate, estimate_advantages

EPISODE_STEPS = 500
GOAL = 475.0  # mean return of 32 episodes at which it counts as solved


def make_cartpole(num_envs: int, **options: Any) -> MujocoPool:
    """A pole on a cart, to be held upright: a reward of 1 for each step."""
    return MujocoPool(
        "inverted_pendulum.xml",  # Gymnasium's
        num_envs,
        frame_skip=2,
        fields=("qpos", "qvel"),
        observation=lambda state: torch.cat([state["qpos"], state["qvel"]], dim=1),
        reward=lambda state, action, new: torch.ones(len(action)),
        terminated=lambda state, new: new["qpos"][:, 1].abs() > 0.2,
        randomize=("qpos += uniform(-0.01, 0.01)", "qvel += uniform(-0.01, 0.01)"),
        **{"max_episode_steps": EPISODE_STEPS, **options},
    )


def make_policy() -> ProbabilisticActor:
    """A network that reads the observation and draws a force."""
    network = torch.nn.Sequential(
        MLP(4, 1, num_cells=[64, 64], activation_class=torch.nn.Tanh),
        AddStateIndependentNormalScale(1, scale_mapping="exp"),
    )
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )


def clipped(env: MujocoPool) -> TransformedEnv:
    """The env for a policy with unbounded actions."""
    clip = ClipTransform(
        in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"], low=-3, high=3
    )
    return TransformedEnv(env, Compose(RewardSum(), clip))


def evaluate(policy: ProbabilisticActor, seed: int) -> float:
    """The mean return of 32 episodes with the most likely actions."""
    env = clipped(make_cartpole(32, seed=seed))
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(EPISODE_STEPS, policy, break_when_any_done=False, break_when_all_done=True)
    env.close()
    return float(data["next", "episode_reward"][:, -1].mean())


def train(seed: int = 0, total_frames: int = 200_000) -> tuple[float, int, float]:
    """Trains until it is solved: the mean return, the frames and the seconds that it took."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    began = time.perf_counter()
    policy = make_policy()
    critic = ValueOperator(MLP(4, 1, num_cells=[64, 64], activation_class=torch.nn.Tanh), ["observation"])
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(policy, critic, entropy_bonus=False, normalize_advantage=True)
    update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-3, fused=True), max_grad_norm=0.5)
    env = clipped(make_cartpole(32, seed=seed))
    mean, frames = 0.0, 0
    collector = PoolCollector(env, policy, frames_per_batch=4096, total_frames=total_frames)
    batch: TensorDictBase
    for batch in collector:
        columns = update.columns(estimate_advantages(advantage, batch))
        for _ in range(10):
            for indices in torch.split(torch.randperm(batch.numel()), 512):
                update(columns, indices)
        frames += batch.numel()
        returns = batch["next", "episode_reward"][batch["next", "done"]]
        if len(returns) and returns.mean() > GOAL / 2 and (mean := evaluate(policy, seed + 1)) >= GOAL:
            break
    return mean, frames, time.perf_counter() - began


def main() -> None:
    """Trains and prints how it went."""
    mean, frames, seconds = train()
    print(f"mean return {mean:.0f} of {EPISODE_STEPS} after {frames:,} frames and {seconds:.0f} s")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Trains a cart-pole of ten lines of XML.").parse_args()
    main()
