"""A program's options: the fields of a dataclass as argparse's arguments, and presets of them."""

from __future__ import annotations

import argparse
import math
import shlex
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

PRESETS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("presets.toml").read_text())
LIMITS = {"least": "at least", "above": "more than", "most": "at most", "below": "less than"}


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a dataclass with its line in ``--help``.

    Args:
        default: its value.
        help: the line.
        more: its ``choices``, its :data:`LIMITS`, its ``kind`` and ``metavar`` where its default does not
            tell them, the ``family`` of tasks that it is for, the option that it ``needs``, which is off by
            default, and ``kept=True`` where a resumed training cannot change it.
    """
    return field(default=default, metadata={"help": help, **more})


def flag(name: str) -> str:
    """A field's name on the command line."""
    return "--" + name.replace("_", "-")


def expect(holds: bool, name: str, expected: str, got: Any) -> None:
    """Raises ValueError where an option's value cannot be."""
    if not holds:
        raise ValueError(f"{flag(name)}: expected {expected}, got {got}")


def is_allowed(one: Field[Any], value: Any) -> bool:
    """Whether a value is within a field's limits, or no number."""
    if not isinstance(value, (int, float)):
        return True
    least, above, most, below = (one.metadata.get(name) for name in LIMITS)
    return not (
        math.isnan(value)
        or (least is not None and value < least)
        or (above is not None and value <= above)
        or (most is not None and value > most)
        or (below is not None and value >= below)
    )


def check_limits(kind: type[Any], values: Any) -> None:
    """Raises ValueError: one of the options of that class is outside of its limits."""
    for one in fields(kind):
        limits = [f"{words} {one.metadata[name]}" for name, words in LIMITS.items() if name in one.metadata]
        value = getattr(values, one.name)
        expect(is_allowed(one, value), one.name, " and ".join(limits) or "a number", value)


def layer_sizes(text: str) -> list[int]:
    """Units of each hidden layer, from a text such as ``"64,64"``."""
    sizes = text.split(",")
    are_sizes = all(size.strip().isdecimal() and int(size) > 0 for size in sizes)
    expect(are_sizes, "hidden", "numbers of units such as 64,64", repr(text))
    return [int(size) for size in sizes]


def add_options(group: Any, kind: type[Any], *, with_defaults: bool) -> None:
    """An argument for each field of a dataclass; without defaults, those that are not given are None."""
    for one in fields(kind):
        more, default = one.metadata, one.default if with_defaults else None
        has_no_default = one.default in (None, "", math.inf) or one.default is False
        help = more["help"] + ("" if has_no_default else f" (default: {one.default})")
        if isinstance(one.default, bool):
            action: Any = "store_true" if with_defaults else argparse.BooleanOptionalAction
            group.add_argument(flag(one.name), action=action, default=default, help=help)
            continue
        parse, choices = more.get("kind", type(one.default)), more.get("choices")
        how = {"type": parse, "choices": choices, "nargs": more.get("nargs"), "default": default}
        metavar = more.get("metavar", None if choices else parse.__name__.upper())
        group.add_argument(flag(one.name), metavar=metavar, help=help, **how)


def given(kind: type[Any], options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a dataclass that a command line has set."""
    values = {one.name: getattr(options, one.name) for one in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def preset_values(kind: type[Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset sets."""
    parser = argparse.ArgumentParser()
    add_options(parser, kind, with_defaults=False)
    return given(kind, parser.parse_args(shlex.split(preset["options"])))


def preset_of(presets: Mapping[str, Any], family: str) -> str:
    """The default preset of a family of tasks: the first one where none names it."""
    named = [name for name, preset in presets.items() if family in preset.get("families", [])]
    return (named or list(presets))[0]


def described_presets(presets: Mapping[str, Any]) -> str:
    """Presets for ``--help``: where they are from, and the options that they stand for."""
    lines = []
    for name, preset in presets.items():
        families = ", ".join(preset.get("families", []))
        lines.append(f"  {name}: {preset['source']}" + (f" (default for {families})" if families else ""))
        words = textwrap.wrap(preset["options"], width=94, break_on_hyphens=False)
        lines += [" " * 6 + line for line in words]
    return "\n".join(lines)


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
