"""What a PPO training depends on, and the published settings that it can begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torchrl_pool.examples.actor_training import ActorSettings
from torchrl_pool.examples.settings import layer_sizes, option


@dataclass(frozen=True)
class Config(ActorSettings):
    """All that a training depends on: equal configurations give equal weights."""

    frames_per_batch: int = option(
        2048, "env steps of all envs between two rounds of updates", least=1, kept=True
    )
    minibatch_size: int = option(64, "env steps that an update learns from", least=1)
    gradient_accumulation: int = option(1, "parts of a minibatch, looked at one after the other", least=1)
    epochs: int = option(10, "times that each step is learned from", least=1)
    learning_rate: float = option(3e-4, "Adam's, at the start", least=0)
    anneal_learning_rate: bool = option(False, "down to zero at the end")
    kl_target: float = option(
        0.0, "KL divergence that the learning rate is moved for after each batch; 0: it is not", least=0
    )
    adam_eps: float = option(1e-5, "Adam's epsilon", least=0, kept=True)
    gamma: float = option(0.99, "discount", least=0, most=1)
    gae_lambda: float = option(0.95, "of generalised advantage estimation", least=0, most=1)
    advantages_each_epoch: bool = option(False, "estimate advantages anew before each epoch")
    normalize_advantage: bool = option(True, "within each minibatch")
    clip_epsilon: float = option(0.2, "how far probabilities may move from 1", above=0, below=1)
    anneal_clip_epsilon: bool = option(False, "down to zero at the end")
    clip_value: bool = option(False, "values may move by clip-epsilon, too")
    value_coef: float = option(
        0.5, "of the mean squared error of values (CleanRL's vf_coef is twice that)", least=0
    )
    entropy_coef: float = option(0.0, "of the policy's entropy", least=0)
    max_grad_norm: float = option(0.5, "gradients are clipped to it; 0: they are not", least=0)
    normalize_rewards: bool = option(
        False, "by the deviation of discounted returns, clipped to 10", kept=True
    )
    policy: str = option("normal", "for continuous actions", choices=("normal", "tanh-normal"), kept=True)
    hidden: str = option("64,64", "units of the hidden layers of actor and critic", kept=True)
    recurrent: str = option(
        "none", "what actor and critic remember with", choices=("none", "lstm", "gru"), kept=True
    )
    hidden_size: int = option(64, "units of that memory", least=1, kept=True, needs="recurrent")
    sequence_length: int = option(
        0,
        "steps that it is learned through; the states before are data; 0: a whole batch",
        least=0,
        needs="recurrent",
    )

    @property
    def clips_actions(self) -> bool:
        return self.policy == "normal"

    @property
    def compiles(self) -> bool:
        return self.recurrent == "none"

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / self.minibatch_size) * self.epochs

    @property
    def steps(self) -> int:
        """Steps of each env in a batch."""
        return math.ceil(self.frames_per_batch / self.num_envs)

    @property
    def steps_in_a_row(self) -> int:
        """Steps that are learned from in their order: one, without a memory."""
        return (self.sequence_length or self.steps) if self.recurrent != "none" else 1

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        if self.steps % self.steps_in_a_row:
            raise ValueError(
                f"--sequence-length: expected a divisor of the {self.steps} steps of an env in a batch, "
                f"got {self.sequence_length}"
            )
        if self.minibatch_size < self.steps_in_a_row:
            raise ValueError(
                f"--minibatch-size: expected at least one sequence of {self.steps_in_a_row} steps "
                f"(--sequence-length), got {self.minibatch_size}"
            )
        if self.kl_target and self.anneal_learning_rate:
            raise ValueError("--kl-target: expected 0 with --anneal-learning-rate, got both")
        parts = self.minibatch_size // self.steps_in_a_row
        if self.gradient_accumulation > parts:
            raise ValueError(
                f"--gradient-accumulation: expected at most the {parts} "
                f"{'steps' if self.recurrent == 'none' else 'sequences'} of a minibatch, "
                f"got {self.gradient_accumulation}"
            )
        if self.entropy_coef and self.policy == "tanh-normal":
            raise ValueError(
                "--entropy-coef: expected 0 with --policy tanh-normal, whose entropy has no formula"
            )


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
    "sb3-zoo-lander": (
        "RL Baselines3 Zoo's hyperparameters of PPO for LunarLander",
        {
            "num_envs": 16,
            "frames_per_batch": 16 * 1024,
            "epochs": 4,
            "gamma": 0.999,
            "gae_lambda": 0.98,
            "entropy_coef": 0.01,
        },
    ),
    "sb3-zoo-walker": (
        "RL Baselines3 Zoo's hyperparameters of PPO for BipedalWalker",
        {
            "total_frames": 5_000_000,
            "num_envs": 32,
            "frames_per_batch": 32 * 2048,
            "gamma": 0.999,
            "clip_epsilon": 0.18,
            "normalize_observations": True,
            "normalize_rewards": True,
        },
    ),
    "sb3-zoo-racing": (
        "RL Baselines3 Zoo's hyperparameters of PPO for CarRacing, without gSDE and frame skip",
        {
            "task": "CarRacing-v3",
            "total_frames": 4_000_000,
            "frames_per_batch": 8 * 512,
            "minibatch_size": 128,
            "learning_rate": 1e-4,
            "anneal_learning_rate": True,
            "normalize_rewards": True,
            "policy": "tanh-normal",
        },
    ),
    "rl-starter-grid": (
        "Willems' rl-starter-files for MiniGrid; its 16 envs of 128 steps are 64 of 32 here",
        {
            "num_envs": 64,
            "frames_per_batch": 64 * 32,
            "minibatch_size": 256,
            "epochs": 4,
            "learning_rate": 1e-3,
            "adam_eps": 1e-8,
            "normalize_advantage": False,
            "clip_value": True,
            "entropy_coef": 0.01,
            "hidden": "64",
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
    "rl-games-pong": (
        "EnvPool's paper, table 8 (rl_games); pictures in [0, 1], values not normalised, ReLU",
        {
            "task": "ALE/Pong-v5",
            "total_frames": 8_000_000,
            "num_envs": 64,
            "frames_per_batch": 64 * 128,
            "minibatch_size": 1024,
            "epochs": 2,
            "kl_target": 0.01,
            "gamma": 0.999,
            "clip_value": True,
            "value_coef": 1.0,
            "entropy_coef": 0.01,
            "max_grad_norm": 1.0,
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
FOR_FAMILY = {
    "mujoco": "cleanrl-mujoco",
    "dm_control": "cleanrl-mujoco",
    "atari": "cleanrl-atari",
    "toy_text": "cleanrl-classic",
    "box2d": "sb3-zoo-lander",
    "minigrid": "rl-starter-grid",
}
