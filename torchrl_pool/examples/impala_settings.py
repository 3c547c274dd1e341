"""What an IMPALA training depends on, and the published settings that it can begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torchrl_pool.examples.actor_training import ActorSettings
from torchrl_pool.examples.settings import layer_sizes, option


@dataclass(frozen=True)
class Config(ActorSettings):
    """All that a training depends on: but for asynchronous ones, equal configurations give equal weights."""

    architecture: str = option(
        "cleanba",
        "whether actors wait for the learner, are one update behind, or do as they can",
        choices=("synchronous", "cleanba", "asynchronous"),
        kept=True,
    )
    num_envs: int = option(32, "simulators, of all actors together", least=1, kept=True)
    steps: int = option(20, "of each env in a batch", least=1, kept=True)
    minibatches: int = option(4, "that the envs of a batch are split into, one update each", least=1)
    gradient_accumulation: int = option(1, "parts of a minibatch, looked at one after the other", least=1)
    learning_rate: float = option(6e-4, "RMSprop's, at the start", least=0)
    anneal_learning_rate: bool = option(True, "down to zero at the end")
    rmsprop_alpha: float = option(0.99, "RMSprop's smoothing", least=0, most=1, kept=True)
    rmsprop_eps: float = option(0.01, "RMSprop's epsilon, outside of the root", least=0, kept=True)
    gamma: float = option(0.99, "discount", least=0, most=1)
    rho_clip: float = option(1.0, "V-trace's largest weight of an error", above=0)
    c_clip: float = option(1.0, "V-trace's largest weight of those that follow", above=0)
    loss_reduction: str = option("sum", "over the steps of a minibatch", choices=("sum", "mean"))
    value_coef: float = option(
        0.25, "of the squared error of values (Cleanba's vf_coef is twice that)", least=0
    )
    entropy_coef: float = option(0.01, "of the policy's entropy", least=0)
    max_grad_norm: float = option(40.0, "gradients are clipped to it; 0: they are not", least=0)
    hidden: str = option(
        "64,64", "units of the hidden layers of actor and critic, but for pictures", kept=True
    )

    @property
    def clips_actions(self) -> bool:
        return True

    @property
    def compiles(self) -> bool:
        return False

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_frames / (self.num_envs * self.steps)) * self.minibatches

    def check(self) -> None:
        super().check()
        layer_sizes(self.hidden)
        parts = self.minibatches * self.gradient_accumulation
        if self.num_envs % parts:
            raise ValueError(
                f"--num-envs: expected a multiple of {parts} parts of a batch, got {self.num_envs}"
            )


_ATARI = {
    "task": "ALE/Pong-v5",
    "total_frames": 50_000_000,
    "sign_rewards": True,
    "sticky_actions": 0.25,
}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "classic": (
        "this package's, for classic control: a minute to 475 on CartPole",
        {
            "total_frames": 1_000_000,
            "learning_rate": 3e-3,
            "loss_reduction": "mean",
            "rmsprop_eps": 1e-5,
            "minibatches": 2,
            "max_grad_norm": 0.5,
        },
    ),
    "cleanba-atari": (
        "Cleanba's cleanba_impala.py (Huang et al. 2023): two actors of 64 envs",
        {**_ATARI, "num_envs": 128, "actors": 2, "all_actions": True},
    ),
    "monobeast-atari": (
        "Monobeast (TorchBeast, Kuettler et al. 2019): 80 steps, batches of 8",
        {
            **_ATARI,
            "num_envs": 8,
            "steps": 80,
            "minibatches": 1,
            "learning_rate": 4.8e-4,
            "entropy_coef": 0.0006,
            "sticky_actions": 0.0,
            "architecture": "asynchronous",
        },
    ),
    "torchrl-atari": (
        "TorchRL's sota-implementations/impala/config_single_node.yaml: 80 steps, batches of 32",
        {
            **_ATARI,
            "num_envs": 32,
            "steps": 80,
            "minibatches": 1,
            "rmsprop_eps": 1e-8,
            "loss_reduction": "mean",
            "value_coef": 0.5,
            "episodic_life": True,
            "sticky_actions": 0.0,
            "architecture": "asynchronous",
        },
    ),
}
FOR_FAMILY = {"atari": "cleanba-atari"}
