"""What was measured, as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchrl_pool._bench.contenders import CONTENDERS, POOL
from torchrl_pool._bench.measure import Cell
from torchrl_pool._tables import print_table

HEADER = ("task", "envs", "threads", "", "steps/s", "spread", "of raw", f"{POOL} is faster by")


def print_cells(cells: Sequence[Cell]) -> None:
    """Prints one row for each contender of each cell, and below it what was left out and why."""
    print_table(HEADER, [row for cell in cells for row in _rows(cell)], numbers=4)
    for note in _notes(cells):
        print(note)


def _rows(cell: Cell) -> Iterable[tuple[str, ...]]:
    first = (cell.task, str(cell.num_envs), str(cell.num_threads))
    raw = cell.seconds_per_step.get("raw")
    for name, seconds in cell.seconds_per_step.items():
        of_raw = _ratio(raw.median / seconds.median) if raw else ""
        ratio = "" if name == POOL else _ratio(cell.ratio(name))
        yield (*first, name, f"{1 / seconds.median:,.0f}", f"±{seconds.spread:.0%}", of_raw, ratio)
        first = ("", "", "")


def _ratio(value: float) -> str:
    """Two decimals, or as many as it takes to see something."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.1g}"


def _notes(cells: Sequence[Cell]) -> Iterable[str]:
    measured = dict.fromkeys(name for cell in cells for name in cell.seconds_per_step)
    yield "\nMedians over rounds in which all take turns; spread: half the distance between the quartiles."
    width = max(map(len, measured))
    for name in measured:
        yield f"  {name.ljust(width)}  {CONTENDERS[name][1]}"
    reasons = dict.fromkeys(item for cell in cells for item in cell.missing.items())
    if reasons:
        yield "\nNot measured:"
    for name, why in reasons:
        yield f"  {name}: {why}"
