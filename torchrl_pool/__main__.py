"""The command line, ``torchrl-pool`` or ``python -m torchrl_pool``.

Its commands: list, info TASK, build FILE…, new NAME.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from torchrl_pool import __version__
from torchrl_pool._info import show_task, show_tasks
from torchrl_pool._plugins.building import BuildError, build_plugin, compile_plugin, note_build
from torchrl_pool._plugins.loading import load_plugin
from torchrl_pool._plugins.scaffold import new_package

_EXAMPLES = """\
examples:
  %(prog)s list --family mujoco
  %(prog)s info HalfCheetah-v5
  %(prog)s info gymnasium:CartPole-v1
  %(prog)s new my_envs

To train: python -m torchrl_pool.examples.ppo --task CartPole-v1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    0; 1: a plugin does not build, or a package is missing; 2: a bad name, or a file that cannot be read or
    written; 141: the output was closed.
    """
    parser = argparse.ArgumentParser(
        prog="torchrl-pool" if Path(sys.argv[0]).name == "torchrl-pool" else "python -m torchrl_pool",
        description="Lists and shows environments, and starts packages of your own.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"torchrl_pool {__version__}")
    parser.set_defaults(run=lambda _: parser.print_help())
    commands = parser.add_subparsers(metavar="COMMAND")

    command = commands.add_parser("list", help="list the tasks, by family")
    command.add_argument("--family", help="only this family")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_list)

    command = commands.add_parser("info", help="show a task's observations, actions, options and time limit")
    command.add_argument("task", help="the task's id, such as CartPole-v1, or gymnasium:ID")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--plugin", nargs="+", metavar="FILE", help="to load first: a library, or the C++ files of a plugin"
    )
    command.set_defaults(run=_info)

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


def _load(plugin: list[str] | None) -> None:
    if plugin and Path(plugin[0]).suffix == ".so":
        load_plugin(plugin[0])
    elif plugin:
        build_plugin(plugin)


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
    show_tasks(parsed.family, parsed.json)


def _info(parsed: argparse.Namespace) -> None:
    show_task(parsed.task, parsed.json)


if __name__ == "__main__":
    sys.exit(main())
