"""Tables of text."""

from __future__ import annotations

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
    """Prints :func:`table_of`."""
    print(table_of(header, rows, numbers))
