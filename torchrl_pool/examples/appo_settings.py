"""What an APPO training depends on, and the published settings that it can begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torchrl_pool.examples import ppo_settings
from torchrl_pool.examples.settings import option


@dataclass(frozen=True)
class Config(ppo_settings.Config):
    """PPO's settings, and those of learning from data that is a little old."""

    max_lag: int = option(
        1, "batches that weights may be behind what they collect for; 0: no thread", least=0
    )
    refreshes: int = option(1, "times in a batch that the newest weights are taken", least=1)
    double_buffered: bool = option(False, "step one half of the envs while the policy acts for the other")
    vtrace: bool = option(True, "V-trace's targets and advantages in place of GAE's")
    population: int = option(
        1, "policies that train together, with hyper-parameters of their own", least=1, kept=True
    )
    exchange_frames: int = option(
        500_000, "env steps of each policy between two exchanges of weights", least=1, needs="population"
    )
    mutation_rate: float = option(
        0.15, "probability that an exchange changes a hyper-parameter", least=0, most=1, needs="population"
    )

    def check(self) -> None:
        super().check()
        if self.architecture != "synchronous":
            raise ValueError("--architecture: expected none, APPO's is said by --max-lag and --refreshes")
        if self.total_frames < self.population:
            raise ValueError(
                f"--total-frames: expected some for each of {self.population} policies, "
                f"got {self.total_frames}"
            )
        steps = math.ceil(self.frames_per_batch / self.num_envs)
        if steps % self.refreshes:
            raise ValueError(f"--refreshes: expected a divisor of {steps} steps, got {self.refreshes}")


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "classic": (
        "PPO's preset of that name, for classic control, a batch behind",
        {**ppo_settings.PRESETS["classic"][1], "num_envs": 32},
    ),
    "sf-mujoco": (
        "Sample Factory 2.1, mujoco_params.py; without its penalty on the KL divergence, a batch behind",
        {
            "total_frames": 10_000_000,
            "num_envs": 64,
            "frames_per_batch": 4 * 1024,
            "minibatch_size": 1024,
            "epochs": 2,
            "learning_rate": 2.95e-3,
            "anneal_learning_rate": True,
            "adam_eps": 1e-6,
            "value_coef": 1.3,
            "max_grad_norm": 3.5,
            "normalize_observations": True,
            "normalize_rewards": True,
            "vtrace": False,
        },
    ),
    "sf-atari": (
        "Sample Factory 2.1, atari_params.py; pictures in [0, 1], a batch behind",
        {
            "total_frames": 10_000_000,
            "frames_per_batch": 4 * 256,
            "minibatch_size": 256,
            "epochs": 4,
            "learning_rate": 2.5e-4,
            "anneal_learning_rate": True,
            "clip_epsilon": 0.1,
            "entropy_coef": 0.01,
            "sign_rewards": True,
            "episodic_life": True,
            "vtrace": False,
        },
    ),
}
FOR_FAMILY = {"mujoco": "sf-mujoco", "dm_control": "sf-mujoco", "atari": "sf-atari"}
