"""Options of the training programs: what their values can be, and those that all programs have.

The settings of a program are a dataclass, which `tyro <https://brentyi.github.io/tyro>`_ reads:
``num_envs: Kept[Count] = 8  # simulators in the pool`` is ``--num-envs``, and the comment its help.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from torchrl_pool import task_info

PRESETS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("presets.toml").read_text())
GYMNASIUM = "gymnasium"
"""The family of Gymnasium's own envs, which run in worker processes."""
FAMILIES = {"atari": "a game of Atari's", GYMNASIUM: "gymnasium:ID"}


@dataclass(frozen=True)
class Limits:
    """Of a number; NaN is never allowed."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def allow(self, value: Any) -> bool:
        """Whether a value is within them, or no number."""
        if not isinstance(value, (int, float)):
            return True
        return not (
            math.isnan(value)
            or (self.least is not None and value < self.least)
            or (self.above is not None and value <= self.above)
            or (self.most is not None and value > self.most)
            or (self.below is not None and value >= self.below)
        )

    def __str__(self) -> str:
        words = {
            "at least": self.least,
            "more than": self.above,
            "at most": self.most,
            "less than": self.below,
        }
        limits = [f"{word} {value}" for word, value in words.items() if value is not None]
        return " and ".join(limits) or "a number"


@dataclass(frozen=True)
class Needs:
    """Of an option that does nothing unless another one differs from its default."""

    option: str


@dataclass(frozen=True)
class OnlyFor:
    """Of an option for tasks of one family."""

    family: str


KEPT = "kept"
_T = TypeVar("_T")
Kept = Annotated[_T, KEPT]
"""Of an option that a resumed training cannot change."""
Count = Annotated[int, Limits(least=1)]
Whole = Annotated[int, Limits(least=0)]
NotNegative = Annotated[float, Limits(least=0)]
Positive = Annotated[float, Limits(above=0)]
Share = Annotated[float, Limits(least=0, most=1)]


def marks_of(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """What is said of each option of a class, besides its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: getattr(hints[one.name], "__metadata__", ()) for one in fields(kind)}


def limits_of(kind: type[Any]) -> dict[str, Limits]:
    """Those of each option of a class."""
    return {
        name: next((one for one in marks if isinstance(one, Limits)), Limits())
        for name, marks in marks_of(kind).items()
    }


def flag(name: str) -> str:
    """An option's name on the command line."""
    return "--" + name.replace("_", "-")


def expect(holds: bool, name: str, expected: Any, got: Any) -> None:
    """Raises ValueError where an option's value cannot be."""
    if not holds:
        raise ValueError(f"{flag(name)}: expected {expected}, got {got}")


def check_limits(options: Any) -> None:
    """Raises ValueError: one of the options is outside of its limits."""
    for name, limits in limits_of(type(options)).items():
        value = getattr(options, name)
        expect(limits.allow(value), name, limits, value)


def check_effects(settings: Any, begun: Any) -> None:
    """Raises ValueError: an option that was changed does nothing for this task, or without another one."""
    family, usual = family_of(settings.task), type(settings)()
    for name, marks in marks_of(type(settings)).items():
        if (value := getattr(settings, name)) in (getattr(begun, name), getattr(usual, name)):
            continue
        for mark in marks:
            if isinstance(mark, OnlyFor):
                expect(mark.family == family, name, f"{FAMILIES[mark.family]} as --task", repr(settings.task))
            if isinstance(mark, Needs) and getattr(settings, mark.option) == getattr(usual, mark.option):
                other = getattr(usual, mark.option)
                than = "" if other is False else f" other than {other}"
                expect(False, name, f"{flag(mark.option)}{than} with it", value)


def layer_sizes(text: str) -> list[int]:
    """Units of each hidden layer, from a text such as ``"64,64"``."""
    sizes = text.split(",")
    are_sizes = all(size.strip().isdecimal() and int(size) > 0 for size in sizes)
    expect(are_sizes, "hidden", "numbers of units such as 64,64", repr(text))
    return [int(size) for size in sizes]


def family_of(task: str) -> str:
    """A task's family. Raises ValueError: there is no such task."""
    return GYMNASIUM if task.startswith(f"{GYMNASIUM}:") else task_info(task).family


def preset_of(presets: Mapping[str, Any], family: str) -> str:
    """The default preset of a family of tasks: the first one where none names it."""
    named = [name for name, preset in presets.items() if family in preset.get("families", [])]
    return (named or list(presets))[0]


@dataclass(frozen=True)
class EnvOptions:
    """The options of every program: which envs it trains in."""

    # a task's id, see python -m torchrl_pool list; gymnasium:ID makes Gymnasium's own env
    task: Kept[str] = "CartPole-v1"
    # of networks, actions and simulators
    seed: Kept[Annotated[int, Limits(least=0, below=1 << 62)]] = 0
    total_frames: Count = 1_000_000  # env steps to train for, rounded up to whole batches
    num_envs: Kept[Count] = 8  # simulators in the pool
    normalize_observations: Kept[bool] = False  # by running moments, clipped to 10
    sign_rewards: bool = False  # learn from the signs of rewards (Atari)
    episodic_life: bool = False  # learn as if a lost life ended the episode, which goes on (Atari)
    # probability that a game repeats the last action (Atari)
    sticky_actions: Annotated[Share, OnlyFor("atari")] = 0.0
    all_actions: Kept[Annotated[bool, OnlyFor("atari")]] = False  # all 18 actions of the joystick
    # worker processes of a pool (gymnasium:ID); 0: its envs run in this process
    num_workers: Annotated[int, Limits(least=0), OnlyFor(GYMNASIUM)] = 0

    # Not options, but what a program is like:
    clips_actions = False  # simulators get the nearest action that they can take; policies learn from theirs
    supports_images = False  # has networks for MiniGrid's grids and missions, and for CarRacing's pictures
    compiles = True  # has updates that torch.compile makes faster

    @property
    def num_updates(self) -> int:
        """Steps of the optimizer in the whole training."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses settings that cannot be, before anything is built."""
        check_limits(self)


@dataclass(frozen=True)
class RunOptions:
    """How a program runs: nothing that weights depend on, but for how they are computed."""

    preset: str | None = None  # settings, listed above; default: the task's
    seeds: tuple[int, ...] = ()  # one training after the other
    output: Path | None = None  # folder; default: runs, or the checkpoint's
    overwrite: bool = False  # replace what an earlier training has left in the folder
    resume: Path | None = None  # go on from a checkpoint, or a training's folder, with its settings
    # also send the learning curve and the video there, by TorchRL's logger
    logger: Literal["csv", "tensorboard", "wandb", "mlflow", "trackio"] | None = None
    evaluate: Whole = 10  # episodes to evaluate with at the end
    until_return: float = math.inf  # stop at that mean return of the last 100 episodes
    video: bool = False  # record an episode at the end (mp4 or gif)
    # torch.compile for updates; auto: small networks from 30,000 updates on, or as the checkpoint says
    compile: Literal["auto", "yes", "no"] = "auto"
    # threads of torch; 0: one for small networks, else all (OpenMP crashes where it gets no more threads)
    torch_threads: Annotated[int, Limits(least=0, most=1024)] = 0
    # of networks and batches, such as cpu or cuda:1; auto: CUDA, where there is one, for pictures, else cpu
    device: str = "auto"
    storing_device: str = ""  # of a replay buffer, such as cpu; default: that of --device
    checkpoint_seconds: float = 300.0  # time between two checkpoints
    quiet: bool = False  # no progress bar
