"""``python -m torchrl_pool bench``: its arguments, and what it does with them."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchrl_pool import _core
from torchrl_pool._bench.contenders import CONTENDERS, ENVPOOL_PYTHON, PEERS_BY_DEFAULT, POOL, Setup
from torchrl_pool._bench.document import document, machine_line, save
from torchrl_pool._bench.measure import Cell, measure, setups
from torchrl_pool._bench.plot import check_can_plot, plot_throughput
from torchrl_pool._bench.report import print_cells
from torchrl_pool._plugins.registry import task_info

_NAMES = [name for name in CONTENDERS if name != POOL]
_WIDTH = max(map(len, _NAMES))

PARSER: dict[str, Any] = {
    "help": "measure a task on this machine, against the bare simulator and other libraries",
    "description": textwrap.fill(
        "Steps a task with random actions and prints steps per second: of a PoolEnv, of the bare "
        "simulator, and of the other libraries that are installed. All take turns in one run, so their "
        "ratios hold on a noisy machine too.",
        width=80,
    ),
    "epilog": "what --against can name:\n"
    + "\n".join(f"  {name.ljust(_WIDTH)}  {CONTENDERS[name][1]}" for name in _NAMES)
    + "\n\nexamples:\n"
    "  %(prog)s HalfCheetah-v5\n"
    "  %(prog)s ALE/Pong-v5 --num-envs 64 --against envpool,ale --plot pong.png",
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="+", metavar="TASK", help="the id of a task, such as CartPole-v1")
    add_measuring_arguments(parser, num_envs=[1, 8, 64, 256], against=PEERS_BY_DEFAULT)


def add_measuring_arguments(
    parser: argparse.ArgumentParser,
    *,
    num_envs: Sequence[int],
    against: Sequence[str],
    num_threads: Sequence[int] = (),
    rounds: int = 15,
) -> None:
    """The arguments that all measurements of throughput share, with these defaults."""
    parser.add_argument(
        "--num-envs",
        type=_positive,
        nargs="+",
        default=list(num_envs),
        metavar="N",
        help=f"numbers of envs (default: {' '.join(map(str, num_envs))})",
    )
    parser.add_argument(
        "--num-threads",
        type=_positive,
        nargs="+",
        default=list(num_threads) or [_core.available_cpus()],
        metavar="T",
        help=f"numbers of threads (default: {' '.join(map(str, num_threads)) or 'one for each processor'})",
    )
    parser.add_argument(
        "--against",
        type=_contenders,
        default=list(against),
        metavar="NAME,…",
        help=f"what to compare with (default: {','.join(against)})",
    )
    parser.add_argument(
        "--envpool-python",
        metavar="PATH",
        help=f"an interpreter that has EnvPool (default: ${ENVPOOL_PYTHON}, else this one)",
    )
    parser.add_argument(
        "--max-processes",
        type=_positive,
        default=Setup.max_processes,
        metavar="N",
        help="leave out what starts a process for each env where there are more envs (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds", type=_rounds, default=rounds, metavar="N", help="turns of each (default: %(default)s)"
    )
    parser.add_argument(
        "--round-seconds",
        type=_seconds,
        default=0.1,
        metavar="S",
        help="length of a turn (default: %(default)s)",
    )
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--plot", type=_writable, metavar="FILE.png", help="draw them")


def run(parsed: argparse.Namespace) -> None:
    """Measures, prints, saves and draws.

    Raises:
        ValueError: there is no such task.
        ImportError: ``--plot`` without matplotlib.
    """
    for task in parsed.task:
        task_info(task)
    if parsed.plot:
        check_can_plot()
    cells = measure_tasks(parsed)
    print(f"{machine_line()}\n")
    print_cells(cells)
    results = [cell.as_dict() for cell in cells]
    save(parsed.json, results)
    if parsed.plot:
        plot_throughput(document(results), parsed.plot)


def measure_tasks(parsed: argparse.Namespace) -> list[Cell]:
    """What the arguments ask for."""
    wanted = [
        setup
        for task in parsed.task
        for setup in setups(
            Setup(task, 1, 1, parsed.envpool_python, parsed.max_processes),
            parsed.num_envs,
            parsed.num_threads,
        )
    ]
    return list(measure(wanted, parsed.against, rounds=parsed.rounds, round_seconds=parsed.round_seconds))


def _positive(text: str) -> int:
    return _at_least(text, 1)


def _rounds(text: str) -> int:
    return _at_least(text, 2)


def _at_least(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"expected at least {least}, got {value}")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def _contenders(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _NAMES:
            raise argparse.ArgumentTypeError(f"unknown name {name!r}; known: {', '.join(_NAMES)}")
    return names


def _writable(text: str) -> Path:
    path = Path(text)
    is_new = not path.exists()
    try:
        path.open("ab").close()  # now, not after all is measured, it is seen that it cannot be written
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if is_new:
        path.unlink()
    return path
