"""What every training depends on, whatever learns; each program adds its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Self

LIMITS = {
    "least": ("at least", operator.ge),
    "above": ("more than", operator.gt),
    "most": ("at most", operator.le),
    "below": ("less than", operator.lt),
}


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a configuration with its line in ``--help``.

    Args:
        default: its value.
        help: the line.
        more: its ``choices``, its :data:`LIMITS`, its ``kind`` where it has no default, the ``family``
            of tasks that it is for, the setting that it ``needs``, which is off by default, and
            ``kept=True`` where a training goes on with what it began with.
    """
    return field(default=default, metadata={"help": help, **more})


def limits_of(one: Field[Any]) -> list[tuple[str, Callable[[Any, Any], bool], Any]]:
    """A field's limits: in words, how a value is compared, and with what."""
    return [(*LIMITS[name], one.metadata[name]) for name in LIMITS if name in one.metadata]


def is_allowed(one: Field[Any], value: Any) -> bool:
    """Whether a value is within a field's limits, or is none."""
    return value is None or all(holds(value, limit) for _, holds, limit in limits_of(one))


def flag(name: str) -> str:
    """A field's name on the command line."""
    return "--" + name.replace("_", "-")


def layer_sizes(text: str) -> list[int]:
    """Units of each hidden layer, from a text such as ``"64,64"``."""
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise ValueError(f"--hidden: expected numbers of units such as 64,64, got {text!r}")
    return [int(size) for size in sizes]


@dataclass(frozen=True)
class Settings:
    """What says which envs a program trains in: equal settings give equal weights."""

    task: str = option(
        "CartPole-v1",
        "a task's id, see python -m torchrl_pool list; gymnasium:ID makes Gymnasium's own env",
        kept=True,
    )
    seed: int = option(0, "of networks, actions and simulators", least=0, below=1 << 62, kept=True)
    total_frames: int = option(1_000_000, "env steps to train for, rounded up to whole batches", least=1)
    num_envs: int = option(8, "simulators in the pool", least=1, kept=True)
    learning_rate: float = option(3e-4, "of the optimiser", least=0)
    normalize_observations: bool = option(
        False, "by their running mean and deviation, clipped to 10", kept=True
    )
    sign_rewards: bool = option(False, "learn from the signs of rewards (Atari)")
    episodic_life: bool = option(False, "learn as if a lost life ended the episode, which goes on (Atari)")
    sticky_actions: float = option(
        0.0, "probability that a game repeats the last action (Atari)", least=0, most=1, family="atari"
    )
    all_actions: bool = option(
        False, "give games all 18 actions of the joystick (Atari)", kept=True, family="atari"
    )
    num_workers: int | None = option(
        None,
        "processes that a pool's envs live in, 0: this one (gymnasium:ID); default: one for each processor",
        kind=int,
        least=0,
        family="gymnasium",
    )
    caller_steps: bool = option(
        False,
        "step a share of the envs in this process, beside the workers (gymnasium:ID)",
        family="gymnasium",
    )

    @property
    def clips_actions(self) -> bool:
        """Whether simulators get the nearest action that they can take; policies learn from their own."""
        return False

    @property
    def takes_grids_and_roads(self) -> bool:
        """Whether it has networks for MiniGrid's grids and missions, and for CarRacing's pictures."""
        return False

    @property
    def compiles(self) -> bool:
        """Whether there are updates that ``torch.compile`` can make faster."""
        return True

    @property
    def num_updates(self) -> int:
        """Steps of the optimiser in the whole training."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses settings that cannot be, before anything is built."""
        for one in fields(self):
            value = getattr(self, one.name)
            if not is_allowed(one, value):
                expected = " and ".join(f"{words} {limit}" for words, _, limit in limits_of(one))
                raise ValueError(f"{flag(one.name)}: expected {expected}, got {value}")

    def resumed_with(self, given: Mapping[str, Any]) -> Self:
        """These settings, which a training has begun with, and what it is to go on with instead.

        Raises:
            ValueError: that is part of what it has become.
        """
        for one in fields(self):
            saved = getattr(self, one.name)
            if one.metadata.get("kept") and given.get(one.name, saved) != saved:
                raise ValueError(
                    f"{flag(one.name)}: expected {saved} with --resume, as the training began, "
                    f"got {given[one.name]}"
                )
        return replace(self, **given)
