"""Options: a dataclass's fields as a command line's, presets, and what every training can be told."""

from __future__ import annotations

import argparse
import difflib
import math
import operator
import shlex
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn, Self

from torchrl_pool import task_info

PRESETS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("presets.toml").read_text())
LIMITS = {
    "least": ("at least", operator.ge),
    "above": ("more than", operator.gt),
    "most": ("at most", operator.le),
    "below": ("less than", operator.lt),
}
GYMNASIUM = "gymnasium"
"""The family of Gymnasium's own envs, which run in worker processes."""
FAMILIES = {"atari": "a game of Atari's", GYMNASIUM: "gymnasium:ID"}


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a dataclass with its line in ``--help``.

    Args:
        default: its value.
        help: the line.
        more: its ``choices``, its :data:`LIMITS`, its ``kind`` and ``metavar`` where its default does not
            tell them, the ``family`` of tasks that it is for, the option that it ``needs``, which is off by
            default, and ``kept=True`` where a training goes on with what it began with.
    """
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """A field's name on the command line."""
    return "--" + name.replace("_", "-")


def is_allowed(one: Field[Any], value: Any) -> bool:
    """Whether a value is a number within a field's limits, or not a number's at all."""
    if not isinstance(value, (int, float)):
        return True
    limits = [holds(value, one.metadata[name]) for name, (_, holds) in LIMITS.items() if name in one.metadata]
    return all(limits) and not math.isnan(value)


def check_limits(kind: type[Any], values: Any) -> None:
    """Raises ValueError: one of the options of that class is outside of its limits."""
    for one in fields(kind):
        value = getattr(values, one.name)
        if not is_allowed(one, value):
            limits = [
                f"{words} {one.metadata[name]}" for name, (words, _) in LIMITS.items() if name in one.metadata
            ]
            raise ValueError(f"{flag(one.name)}: expected {' and '.join(limits) or 'a number'}, got {value}")


def layer_sizes(text: str) -> list[int]:
    """Units of each hidden layer, from a text such as ``"64,64"``."""
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise ValueError(f"--hidden: expected numbers of units such as 64,64, got {text!r}")
    return [int(size) for size in sizes]


def family_of(task: str) -> str:
    """A task's family. Raises ValueError: there is no such task."""
    return GYMNASIUM if task.startswith(f"{GYMNASIUM}:") else task_info(task).family


# ---- the command line


class Parser(argparse.ArgumentParser):
    """A parser that suggests options: ``--lr`` is no option, but the initials of one."""

    def error(self, message: str) -> NoReturn:
        before, _, unknown = message.partition("unrecognized arguments: ")
        if not before and unknown:
            name = unknown.split()[0].split("=")[0]
            known = {flag for action in self._actions for flag in action.option_strings if flag[:2] == "--"}
            by_initials = [one for one in sorted(known) if _initials(one) == name.lstrip("-")]
            close = by_initials or difflib.get_close_matches(name, known, 1)
            message += f" (did you mean {close[0]}?)" if close else ""
        super().error(message)


def _initials(flag: str) -> str:
    return "".join(word[:1] for word in flag[2:].split("-"))


def add_options(group: Any, kind: type[Any], *, with_defaults: bool) -> None:
    """An option for each field of a dataclass; without defaults, those that are not given are None."""
    for one in fields(kind):
        more, default = one.metadata, one.default if with_defaults else None
        is_empty = one.default in (None, "", math.inf)
        help = more["help"] + ("" if is_empty or one.default is False else f" (default: {one.default})")
        if isinstance(one.default, bool):
            action: Any = "store_true" if with_defaults else argparse.BooleanOptionalAction
            group.add_argument(flag(one.name), action=action, default=default, help=help)
            continue
        parse = more.get("kind", type(one.default))
        choices = more.get("choices")
        metavar = more.get("metavar", None if choices else parse.__name__.upper())
        nargs = more.get("nargs")
        group.add_argument(
            flag(one.name),
            type=parse,
            default=default,
            choices=choices,
            metavar=metavar,
            nargs=nargs,
            help=help,
        )


def told_presets(presets: Mapping[str, Any]) -> str:
    """Presets for ``--help``: where they are from, and the options that they stand for."""
    lines = []
    for name, preset in presets.items():
        families = ", ".join(preset.get("families", []))
        default = f" (default for {families})" if families else ""
        lines.append(f"  {name}: {preset['source']}{default}")
        words = textwrap.wrap(preset["options"], width=94, break_on_hyphens=False)
        lines += [" " * 6 + line for line in words]
    return "\n".join(lines)


def preset_of(presets: Mapping[str, Any], family: str) -> str:
    """The default preset of a family of tasks: the first one where none names it."""
    named = [name for name, preset in presets.items() if family in preset.get("families", [])]
    return (named or list(presets))[0]


def preset_values(kind: type[Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset sets."""
    parser = Parser()
    add_options(parser, kind, with_defaults=False)
    return given(kind, parser.parse_args(shlex.split(preset["options"])))


def given(kind: type[Any], options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a dataclass that a command line has set."""
    values = {one.name: getattr(options, one.name) for one in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


# ---- what every training can be told


@dataclass(frozen=True)
class RunOptions:
    """How a program runs: nothing that weights depend on, but for how they are computed."""

    preset: str | None = option(None, "settings, listed below; default: the task's", kind=str, metavar="NAME")
    seeds: list[int] | None = option(  # noqa: RUF009
        None, "one training after the other", kind=int, nargs="+", metavar="SEED"
    )
    output: Path | None = option(  # noqa: RUF009
        None, "default: runs, or the checkpoint's folder", kind=Path, metavar="FOLDER"
    )
    overwrite: bool = option(False, "replace what an earlier training has left in the folder")
    resume: Path | None = option(  # noqa: RUF009
        None, "go on from a checkpoint, or a training's folder, with its settings", kind=Path, metavar="PATH"
    )
    logger: str | None = option(
        None,
        "also send the learning curve and the video there, by TorchRL's logger",
        kind=str,
        choices=("csv", "tensorboard", "wandb", "mlflow", "trackio"),
    )
    timings: Path | None = option(None, "write where the time went", kind=Path, metavar="FILE.json")  # noqa: RUF009
    evaluate: int = option(10, "episodes to evaluate with at the end", least=0, metavar="N")
    until_return: float = option(math.inf, "stop at that mean return of the last 100 episodes", metavar="R")
    video: bool = option(False, "record an episode at the end (mp4 or gif)")
    compile: str = option(
        "auto",
        "torch.compile for updates; auto: small networks from 30,000 updates on, or as the checkpoint says",
        choices=("auto", "yes", "no"),
    )
    # OpenMP crashes where it gets no more threads.
    torch_threads: int = option(
        0, "threads of torch; 0: one for small networks, else all", least=0, most=1024, metavar="N"
    )
    checkpoint_seconds: float = option(300.0, "time between two checkpoints", metavar="S")
    quiet: bool = option(False, "no progress bar")


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
    learning_rate: float = option(3e-4, "of the optimizer", least=0)
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
        "worker processes of a pool, 0: none (gymnasium:ID); default: one for each processor",
        kind=int,
        least=0,
        family=GYMNASIUM,
    )
    caller_steps: bool = option(
        False, "step a share of the envs in this process, too (gymnasium:ID)", family=GYMNASIUM
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
        """Steps of the optimizer in the whole training."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses settings that cannot be, before anything is built."""
        check_limits(type(self), self)

    def check_effects(self, set_by_hand: Mapping[str, Any]) -> None:
        """Raises ValueError: an option would do nothing for this task, or without another one."""
        family = family_of(self.task)
        defaults = {one.name: one.default for one in fields(self)}
        for one in fields(self):
            if set_by_hand.get(one.name, one.default) == one.default:
                continue
            of, needed = one.metadata.get("family", family), one.metadata.get("needs")
            if of != family:
                raise ValueError(f"{flag(one.name)}: expected {FAMILIES[of]} as --task, got {self.task!r}")
            if needed and getattr(self, needed) == (off := defaults[needed]):
                other = "" if off is False else f" other than {off}"
                raise ValueError(f"{flag(one.name)}: expected {flag(needed)}{other} with it")

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
