"""The command line, ``torchrl-pool`` or ``python -m torchrl_pool``.

Its commands: demo, list, info TASK, bench TASK, build FILE…, new NAME.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from torchrl_pool import __version__, _core
from torchrl_pool._bench import command as bench
from torchrl_pool._plugins.building import BuildError, build_plugin, compile_plugin, note_build
from torchrl_pool._plugins.loading import load_plugin
from torchrl_pool._plugins.options import OptionInfo
from torchrl_pool._plugins.registry import TaskInfo, list_tasks, open_config, task_info, versions
from torchrl_pool._plugins.scaffold import new_package
from torchrl_pool._tables import print_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    0; 1: a plugin does not build, a package is missing, or the demo has not reached its goal; 2: a bad name,
    or a file that cannot be read or written; 130: Ctrl-C in the demo; 141: the output was closed.
    """
    parser = argparse.ArgumentParser(
        prog="torchrl-pool" if Path(sys.argv[0]).name == "torchrl-pool" else "python -m torchrl_pool",
        description="Lists, shows, measures, builds and starts tasks.",
    )
    parser.add_argument("--version", action="version", version=f"torchrl_pool {__version__}")
    parser.set_defaults(run=lambda _: parser.print_help())
    commands = parser.add_subparsers(metavar="COMMAND")

    command = commands.add_parser("demo", help="see PPO solve CartPole, in seconds")
    command.add_argument("--seed", type=_seed, default=0, help="of networks and simulators; default: 0")
    command.add_argument(
        "--output",
        type=Path,
        default=Path("cartpole_curve.csv"),
        metavar="FILE.csv",
        help="the learning curve; default: cartpole_curve.csv",
    )
    command.set_defaults(run=_demo)

    command = commands.add_parser("list", help="list the tasks, by family")
    command.add_argument("--family", help="only this family")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_list)

    command = commands.add_parser("info", help="show a task's specs, options and time limit")
    command.add_argument("task", help="the task's id, such as CartPole-v1")
    command.add_argument("--json", action="store_true", help="print JSON")
    _add_plugin(command)
    command.set_defaults(run=_info)

    command = commands.add_parser("bench", **bench.PARSER)
    bench.add_arguments(command)
    _add_plugin(command)
    command.set_defaults(run=bench.run)

    command = commands.add_parser("build", help="compile C++ files into a plugin and show its tasks")
    command.add_argument("files", nargs="+", metavar="FILE", help="C++ sources, which become one library")
    command.add_argument(
        "--flags",
        default="",
        type=shlex.split,
        help='further flags for the compiler, such as --flags="-O1 -g"',
    )
    command.add_argument(
        "--checked", action="store_true", help="with checks of how the envs use their rows, for tests"
    )
    command.set_defaults(run=_build)

    command = commands.add_parser("new", help="start a package of C++ envs: one env, its twin, its tests")
    command.add_argument("name", help="the package's name, and that of its folder")
    command.set_defaults(run=_new)

    parsed = parser.parse_args(arguments)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # what the terminal's encoding lacks
        _load(getattr(parsed, "plugin", None))
        status: int = parsed.run(parsed) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # who read it has seen enough, as in `list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except (BuildError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return status


def _add_plugin(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--plugin", nargs="+", metavar="FILE", help="to load first: a library, or the C++ files of a plugin"
    )


def _load(plugin: list[str] | None) -> None:
    if plugin and Path(plugin[0]).suffix == ".so":
        load_plugin(plugin[0])
    elif plugin:
        build_plugin(plugin)


def _demo(parsed: argparse.Namespace) -> int:
    print("Starting torch and TorchRL …", flush=True)
    try:
        from torchrl_pool.examples import demo

        return demo.main(parsed.output, parsed.seed)
    except KeyboardInterrupt:
        print("interrupted")
        return 128 + signal.SIGINT


def _seed(text: str) -> int:
    seed = int(text)
    if not 0 <= seed < 2**32:
        raise argparse.ArgumentTypeError(f"expected 0 to 2**32 - 1, got {seed}")
    return seed


def _new(parsed: argparse.Namespace) -> None:
    folder = new_package(parsed.name, Path.cwd())
    print(f"wrote {folder}; its README.md says how to build and test it")


def _build(parsed: argparse.Namespace) -> None:
    library = compile_plugin(parsed.files, flags=parsed.flags, checked=parsed.checked)
    tasks = load_plugin(library)
    note_build(library, [Path(file).resolve() for file in parsed.files], tasks)
    print(library)
    print(f"tasks: {', '.join(tasks) or 'none'}")
    for task in tasks[:1]:
        print(f"see them: python -m torchrl_pool info {task} --plugin {shlex.quote(str(library))}")
        print(f"use them: torchrl_pool.load_plugin({str(library)!r}), or build_plugin with the sources")


def _list(parsed: argparse.Namespace) -> None:
    tasks = [task_info(task) for task in list_tasks(parsed.family)]
    if parsed.json:
        print(json.dumps([_task_summary(task) for task in tasks], indent=2))
        return
    rows = [
        (task.id, task.family, _or_dash(task.max_episode_steps), _or_dash(task.reward_threshold))
        for task in tasks
    ]
    print_table(("task", "family", "time limit", "solved at"), rows)


def _info(parsed: argparse.Namespace) -> None:
    task = task_info(parsed.task)
    config = open_config(task.id, {})
    specs = _entries(config)
    if parsed.json:
        entries = [_spec_dict(spec) for spec in specs]
        tables = {
            "options": [_option_dict(option) for option in task.options],
            "reset_options": [_option_dict(option) for option in task.reset_options],
        }
        document = {**_task_summary(task), "specs": entries, **tables}
        print(json.dumps({**document, "native_info_keys": config.native_keys}, indent=2))
        return
    print(f"{task.id}  (family {task.family}){': ' + task.description if task.description else ''}")
    limit = "none" if task.max_episode_steps is None else f"{task.max_episode_steps} steps"
    print(f"time limit: {limit}; solved at a return of: {_or_dash(task.reward_threshold)}")
    print(f"render: {_yes(task.can_render)}; get_state and set_state: {_yes(task.can_save)}")
    print(f"same numbers as: {versions()[task.family]}")
    print("\nEntries of one env in PoolEnv")
    rows = [
        (s.name, s.role, s.dtype, _shape(s), _values(s), "see below" if _elements(s) else s.help)
        for s in specs
    ]
    print_table(("name", "role", "dtype", "shape", "values", "meaning"), rows)
    if any(map(_is_one_hot, specs)):
        print("\nWith categorical_action_encoding=True choices are numbers instead of one-hot vectors.")
    for spec in specs:
        if names := _elements(spec):
            print(f"\n{'Choices' if len(spec.categories) == 1 else 'Elements'} of {spec.name!r}")
            print_table(("index", "meaning"), [(str(i), name) for i, name in enumerate(names)])
    print(f"\nInfo keys of every task: {', '.join(config.native_keys)}")
    for title, options in (("Options", task.options), ("Options of a reset", task.reset_options)):
        if not options:
            continue
        print(f"\n{title}")
        options_rows = [(o.name, _type(o), _shortened(repr(o.default)), o.help) for o in options]
        print_table(("name", "type", "default", "meaning"), options_rows)


def _task_summary(task: TaskInfo) -> dict[str, Any]:
    return {
        "id": task.id,
        "family": task.family,
        "description": task.description,
        "max_episode_steps": task.max_episode_steps,
        "reward_threshold": task.reward_threshold,
        "can_render": task.can_render,
        "can_save": task.can_save,
    }


def _spec_dict(spec: _core.Spec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "role": spec.role,
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "one_hot_shape": list(spec.one_hot_shape) if _is_one_hot(spec) else None,
        "low": [_finite(x) for x in spec.low] or None,
        "high": [_finite(x) for x in spec.high] or None,
        "categories": list(spec.categories) or None,
        "help": spec.help,
    }


def _option_dict(option: OptionInfo) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type,
        "default": _finite(option.default),
        "nullable": option.nullable,
        "choices": _finite(option.choices) or None,
        "minimum": _finite(option.minimum),
        "maximum": _finite(option.maximum),
        "help": option.help,
    }


def _finite(x: Any) -> Any:
    """The value with None for infinite numbers, which JSON does not have."""
    if isinstance(x, Mapping):
        return {key: _finite(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_finite(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _shape(spec: _core.Spec) -> str:
    return "x".join(map(str, spec.one_hot_shape if _is_one_hot(spec) else spec.shape)) or "scalar"


def _is_one_hot(spec: _core.Spec) -> bool:
    """Whether it is a one-hot vector in PoolEnv by default."""
    return bool(spec.categories) and (spec.one_hot or spec.role == "action")


def _entries(config: _core.Config) -> list[_core.Spec]:
    """As PoolEnv has them by default, in the task's order, infos among them."""
    layout = _core.LayoutOptions(
        info_keys=[spec.name for spec in config.specs if spec.role == "info"],
        one_hot=True,
        float_dtype=-1,
        from_pixels=False,
        pixels_only=False,
        refuse_nan=False,
        strict_actions=False,
    )
    written = {spec.name: spec for spec in config.outputs(layout)}
    return [written.get(spec.name, spec) for spec in config.specs]


def _elements(spec: _core.Spec) -> list[str]:
    """What the elements of a vector or the choices of an action mean, where the entry's help lists them."""
    several = len(spec.categories) != 1  # or none at all
    count = math.prod(spec.shape) if several else spec.categories[0]
    names = re.split(r", (?![^(]*\))", spec.help)
    return names if len(names) == count > 1 else []


def _values(spec: _core.Spec) -> str:
    if spec.categories:
        one_hot = "one-hot of " if _is_one_hot(spec) else ""
        return one_hot + ", ".join(f"0 … {n - 1}" for n in spec.categories)
    if spec.dtype == "bool":
        return "yes, no"
    if not spec.low and not spec.high:
        return "any"
    bounds = [f"[{low:.4g}, {high:.4g}]" for low, high in zip(spec.low, spec.high, strict=True)]
    if len(set(bounds)) == 1:
        return bounds[0]
    shown = list(_runs(bounds))
    return " ".join(shown[:8] + ["…"] * (len(shown) > 8))


def _runs(texts: Iterable[str]) -> Iterable[str]:
    """Each text, once where it is repeated, with how often."""
    for text, run in groupby(texts):
        count = len(list(run))
        yield f"{text} x {count}" if count > 1 else text


def _shortened(text: str, length: int = 40) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _type(option: OptionInfo) -> str:
    choices = " | ".join(map(repr, option.choices))
    return choices + " or None" * option.nullable if choices else option.type_name


def _or_dash(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    sys.exit(main())
