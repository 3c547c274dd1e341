"""What a SAC training depends on, and the published settings that it can begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchrl_pool.examples.off_policy_settings import OffPolicySettings
from torchrl_pool.examples.settings import option


@dataclass(frozen=True)
class Config(OffPolicySettings):
    """All that a training depends on: equal configurations give equal weights."""

    task: str = option("HalfCheetah-v5", "a task's id with continuous actions", kept=True)
    num_envs: int = option(1, "simulators in the pool", least=1, kept=True)
    tau: float = option(0.005, "how far the critics' targets go towards them at a time", above=0, most=1)
    alpha_init: float = option(1.0, "temperature, at the start", above=0, kept=True)
    fixed_alpha: bool = option(
        False, "keep it; otherwise entropy is kept at minus the size of an action", kept=True
    )


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "sb3": ("Stable-Baselines3's SAC as it comes", {}),
    "cleanrl": (
        "CleanRL's sac_continuous_action.py, with one learning rate, and the actor updated each time",
        {"learning_starts": 5000},
    ),
    "torchrl": (
        "TorchRL's sota-implementations/sac/config.yaml",
        {
            "num_envs": 8,
            "frames_per_batch": 1000,
            "updates_per_batch": 1000,
            "learning_starts": 25_000,
        },
    ),
    "pool": (
        "sb3 with eight envs, whose steps run while it learns: as many updates as env steps",
        {"num_envs": 8, "frames_per_batch": 8, "updates_per_batch": 8, "parallel": True},
    ),
}
FOR_FAMILY: dict[str, str] = {}
