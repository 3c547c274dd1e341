"""What a DQN training depends on, and the published settings that it can begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchrl_pool.examples.off_policy_settings import OffPolicySettings
from torchrl_pool.examples.settings import option


@dataclass(frozen=True)
class Config(OffPolicySettings):
    """All that a training depends on: equal configurations give equal weights."""

    task: str = option("CartPole-v1", "a task's id with discrete actions", kept=True)
    num_envs: int = option(1, "simulators in the pool", least=1, kept=True)
    double: bool = option(False, "the network chooses the next action, its target says its value")
    loss: str = option("l2", "of errors", choices=("l2", "smooth_l1"))
    distributional: bool = option(
        False, "learn how returns are distributed (C51), not their mean alone", kept=True
    )
    atoms: int = option(
        51,
        "returns that a distribution tells the probability of, evenly spaced",
        least=2,
        kept=True,
        needs="distributional",
    )
    value_min: float = option(-10.0, "the least of them", kept=True, needs="distributional")
    value_max: float = option(10.0, "the largest of them", kept=True, needs="distributional")
    epsilon_start: float = option(
        1.0, "probability of a random action, at the start", least=0, most=1, kept=True
    )
    epsilon_end: float = option(0.05, "the same, at the end", least=0, most=1, kept=True)
    epsilon_frames: int = option(250_000, "env steps from the one to the other", least=1, kept=True)
    adam_eps: float = option(1e-8, "Adam's epsilon", least=0, kept=True)

    def check(self) -> None:
        super().check()
        if self.epsilon_end > self.epsilon_start:
            raise ValueError(
                f"--epsilon-end: expected at most the {self.epsilon_start} of --epsilon-start, "
                f"got {self.epsilon_end}"
            )
        if self.value_min >= self.value_max:
            raise ValueError(f"--value-min: expected less than {self.value_max}, got {self.value_min}")
        if self.distributional and (self.double or self.loss != "l2"):
            raise ValueError(
                "--distributional: expected neither --double, which it is, nor --loss, which is cross-entropy"
            )


ATARI: dict[str, Any] = {
    "total_frames": 10_000_000,
    "sign_rewards": True,
    "episodic_life": True,
    "save_replay": False,
    "hidden": "512",
    "batch_size": 32,
    "epsilon_end": 0.01,
    "epsilon_frames": 1_000_000,
    "learning_starts": 80_000,
    "learning_rate": 1e-4,
    "frames_per_batch": 4,
    "target_every": 250,
}
CLASSIC: dict[str, Any] = {
    "num_envs": 10,
    "total_frames": 500_000,
    "frames_per_batch": 10,
    "learning_starts": 10_000,
    "batch_size": 128,
    "buffer_size": 10_000,
    "learning_rate": 2.5e-4,
    "target_every": 50,
    "hidden": "120,84",
}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "cleanrl-classic": (
        "CleanRL's dqn.py; its ten steps between two updates from ten envs together",
        CLASSIC,
    ),
    "cleanrl-c51-classic": (
        "CleanRL's c51.py; its ten steps between two updates from ten envs together",
        {
            **CLASSIC,
            "distributional": True,
            "atoms": 101,
            "value_min": -100.0,
            "value_max": 100.0,
            "adam_eps": 0.01 / 128,
        },
    ),
    "cleanrl-atari": ("CleanRL's dqn_atari.py: 1,000,000 transitions take 56 GB, see docs", ATARI),
    "cleanrl-c51-atari": (
        "CleanRL's c51_atari.py, with a tenth of its buffer",
        {
            **ATARI,
            "distributional": True,
            "buffer_size": 100_000,
            "learning_rate": 2.5e-4,
            "target_every": 2500,
            "adam_eps": 0.01 / 32,
        },
    ),
    "sb3-atari": (
        "Stable-Baselines3's zoo: 100,000 transitions, a target of 1,000 steps",
        {
            **ATARI,
            "buffer_size": 100_000,
            "learning_starts": 100_000,
            "loss": "smooth_l1",
        },
    ),
    "torchrl-atari": (
        "TorchRL's sota-implementations/dqn/config_atari.yaml, with a tenth of its buffer",
        {
            **ATARI,
            "num_envs": 8,
            "frames_per_batch": 1600,
            "updates_per_batch": 100,
            "buffer_size": 100_000,
            "learning_rate": 2.5e-4,
            "learning_starts": 200_000,
            "target_every": 10_000,
            "epsilon_frames": 4_000_000,
            "total_frames": 40_000_000,
        },
    ),
    "rainbow-atari": (
        "of Rainbow (Hessel et al. 2018), table 1: double, prioritised, 3 steps; a tenth of its buffer",
        {
            **ATARI,
            "double": True,
            "n_steps": 3,
            "priority_alpha": 0.5,
            "priority_beta": 0.4,
            "buffer_size": 100_000,
            "learning_rate": 6.25e-5,
            "adam_eps": 1.5e-4,
            "target_every": 2000,
            "epsilon_frames": 62_500,
        },
    ),
}
FOR_FAMILY = {"atari": "sb3-atari"}
