"""What a PPO training depends on, and the published settings that it can begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of the configuration with its line in ``--help``."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Config:
    """All that a training depends on: equal configurations give equal weights."""

    task: str = option("CartPole-v1", "a task's id, see python -m torchrl_pool list")
    seed: int = option(0, "of networks, actions and simulators")
    total_frames: int = option(1_000_000, "env steps to train for, rounded up to whole batches")
    num_envs: int = option(8, "simulators in the pool")
    frames_per_batch: int = option(2048, "env steps of all envs between two rounds of updates")
    minibatch_size: int = option(64, "env steps that an update learns from")
    epochs: int = option(10, "times that each step is learned from")
    learning_rate: float = option(3e-4, "Adam's, at the start")
    anneal_learning_rate: bool = option(False, "down to zero at the end")
    adam_eps: float = option(1e-5, "Adam's epsilon")
    gamma: float = option(0.99, "discount")
    gae_lambda: float = option(0.95, "of generalised advantage estimation")
    advantages_each_epoch: bool = option(False, "estimate advantages anew before each epoch")
    normalize_advantage: bool = option(True, "within each minibatch")
    clip_epsilon: float = option(0.2, "how far probabilities may move from 1")
    anneal_clip_epsilon: bool = option(False, "down to zero at the end")
    clip_value: bool = option(False, "values may move by clip-epsilon, too")
    value_coef: float = option(0.5, "of the mean squared error of values (CleanRL's vf_coef is twice that)")
    entropy_coef: float = option(0.0, "of the policy's entropy")
    max_grad_norm: float = option(0.5, "gradients are clipped to it; 0: they are not")
    normalize_observations: bool = option(False, "by their running mean and deviation, clipped to 10")
    normalize_rewards: bool = option(False, "by the deviation of discounted returns, clipped to 10")
    sign_rewards: bool = option(False, "learn from the signs of rewards (Atari)")
    episodic_life: bool = option(False, "learn as if a lost life ended the episode, which goes on (Atari)")
    policy: str = option("normal", "for continuous actions", choices=("normal", "tanh-normal"))
    hidden: str = option("64,64", "units of the hidden layers of actor and critic")
    sticky_actions: float = option(0.0, "probability that a game repeats the last action (Atari)")


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "classic": (
        "this package's quickstart, for classic control: seconds to 475 on CartPole",
        {
            "total_frames": 160_000,
            "num_envs": 32,
            "minibatch_size": 512,
            "epochs": 5,
            "learning_rate": 3e-3,
            "anneal_learning_rate": True,
            "adam_eps": 1e-8,
            "gamma": 0.98,
            "advantages_each_epoch": True,
        },
    ),
    "cleanrl-classic": (
        "CleanRL's ppo.py",
        {
            "total_frames": 500_000,
            "num_envs": 4,
            "frames_per_batch": 512,
            "minibatch_size": 128,
            "epochs": 4,
            "learning_rate": 2.5e-4,
            "anneal_learning_rate": True,
            "clip_value": True,
            "value_coef": 0.25,
            "entropy_coef": 0.01,
        },
    ),
    "cleanrl-mujoco": (
        "CleanRL's ppo_continuous_action.py",
        {
            "num_envs": 1,
            "anneal_learning_rate": True,
            "clip_value": True,
            "value_coef": 0.25,
            "normalize_observations": True,
            "normalize_rewards": True,
        },
    ),
    "sb3-mujoco": (
        "Stable-Baselines3's PPO as it comes, with VecNormalize; its 2,048 steps from 8 envs together",
        {"normalize_observations": True, "normalize_rewards": True},
    ),
    "torchrl-mujoco": (
        "TorchRL's sota-implementations/ppo/config_mujoco.yaml",
        {
            "num_envs": 1,
            "anneal_learning_rate": True,
            "advantages_each_epoch": True,
            "value_coef": 0.25,
            "max_grad_norm": 0.0,
            "normalize_observations": True,
            "policy": "tanh-normal",
        },
    ),
    "envpool-mujoco": (
        "EnvPool's paper (Weng et al. 2022), table 5",
        {
            "total_frames": 10_000_000,
            "num_envs": 64,
            "frames_per_batch": 64 * 64,
            "minibatch_size": 1024,
            "epochs": 2,
            "learning_rate": 2.95e-3,
            "anneal_learning_rate": True,
            "value_coef": 0.65,
            "max_grad_norm": 3.5,
            "normalize_observations": True,
            "normalize_rewards": True,
        },
    ),
    "cleanrl-atari": (
        "CleanRL's ppo_atari.py and ppo_atari_envpool.py",
        {
            "total_frames": 10_000_000,
            "frames_per_batch": 8 * 128,
            "minibatch_size": 256,
            "epochs": 4,
            "learning_rate": 2.5e-4,
            "anneal_learning_rate": True,
            "clip_epsilon": 0.1,
            "clip_value": True,
            "value_coef": 0.25,
            "entropy_coef": 0.01,
            "sign_rewards": True,
            "episodic_life": True,
        },
    ),
    "envpool-pong": (
        "EnvPool's paper, table 4; steps and minibatches are CleanRL's",
        {
            "task": "ALE/Pong-v5",
            "total_frames": 7_000_000,
            "num_envs": 64,
            "frames_per_batch": 64 * 128,
            "minibatch_size": 2048,
            "epochs": 4,
            "learning_rate": 2e-3,
            "anneal_learning_rate": True,
            "clip_epsilon": 0.1,
            "value_coef": 1.12,
            "max_grad_norm": 1.13,
            "sign_rewards": True,
            "episodic_life": True,
        },
    ),
    "torchrl-atari": (
        "TorchRL's sota-implementations/ppo/config_atari.yaml",
        {
            "task": "ALE/Pong-v5",
            "total_frames": 10_000_000,
            "frames_per_batch": 4096,
            "minibatch_size": 1024,
            "epochs": 3,
            "learning_rate": 2.5e-4,
            "anneal_learning_rate": True,
            "advantages_each_epoch": True,
            "clip_epsilon": 0.1,
            "anneal_clip_epsilon": True,
            "value_coef": 1.0,
            "entropy_coef": 0.01,
            "sign_rewards": True,
            "episodic_life": True,
        },
    ),
}
FOR_FAMILY = {"mujoco": "cleanrl-mujoco", "atari": "cleanrl-atari", "toy_text": "cleanrl-classic"}


def check(config: Config) -> None:
    """Refuses settings that cannot be, before anything is built."""
    for name in ("total_frames", "num_envs", "frames_per_batch", "minibatch_size", "epochs"):
        if getattr(config, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least 1, got {getattr(config, name)}")
    if config.seed < 0:
        raise ValueError(f"--seed: expected at least 0, got {config.seed}")
    if config.entropy_coef and config.policy == "tanh-normal":
        raise ValueError("--entropy-coef: expected 0 with --policy tanh-normal, whose entropy has no formula")
