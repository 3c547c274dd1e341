"""Tables of text."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Columns of equal width; the last ``numbers`` of them are numbers, which are aligned to the right."""
    table = [tuple(header), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    words = len(header) - numbers
    lines = []
    for row in table:
        cells = zip(row, widths, strict=True)
        padded = [cell.ljust(w) if i < words else cell.rjust(w) for i, (cell, w) in enumerate(cells)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> None:
    """Prints :func:`table_of`; in a terminal the last column is as wide as there is room, at most."""
    before = sum(max(len(row[i]) + 2 for row in (header, *rows)) for i in range(len(header) - 1))
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    room = shutil.get_terminal_size().columns - before if is_terminal else 0
    for line in table_of(header, rows, numbers).splitlines():
        parts = textwrap.wrap(line[before:], room) if room >= 20 else [line[before:]]
        print(line[:before] + ("\n" + " " * before).join(parts))
