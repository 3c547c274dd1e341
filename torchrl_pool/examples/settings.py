"""What every training depends on, whatever learns; each program adds its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a configuration with its line in ``--help``."""
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """A field's name on the command line."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Settings:
    """What says which envs a program trains in: equal settings give equal weights."""

    task: str = option("CartPole-v1", "a task's id, see python -m torchrl_pool list")
    seed: int = option(0, "of networks, actions and simulators")
    total_frames: int = option(1_000_000, "env steps to train for, rounded up to whole batches")
    num_envs: int = option(8, "simulators in the pool")
    normalize_observations: bool = option(False, "by their running mean and deviation, clipped to 10")
    sign_rewards: bool = option(False, "learn from the signs of rewards (Atari)")
    episodic_life: bool = option(False, "learn as if a lost life ended the episode, which goes on (Atari)")
    sticky_actions: float = option(0.0, "probability that a game repeats the last action (Atari)")
    all_actions: bool = option(False, "give games all 18 actions of the joystick (Atari)")

    @property
    def clips_actions(self) -> bool:
        """Whether simulators get the nearest action that they can take; policies learn from their own."""
        return False

    @property
    def num_updates(self) -> int:
        """Steps of the optimiser in the whole training."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses settings that cannot be, before anything is built."""
        self.check_positive("total_frames", "num_envs")
        if self.seed < 0:
            raise ValueError(f"--seed: expected at least 0, got {self.seed}")

    def check_positive(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{flag(name)}: expected at least 1, got {getattr(self, name)}")
