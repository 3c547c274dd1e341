"""Text in the documents that a program writes: between two comments, in place.

<!-- generated: NAME -->
…
<!-- end of generated -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?<=^<!-- generated: )(\S+) -->\n.*?(?=^<!-- end of generated -->$)", re.MULTILINE | re.DOTALL
)


def fill(text: str, blocks: dict[str, Callable[[], str]]) -> str:
    """``text`` with those of its blocks written again that ``blocks`` has a function for."""

    def written(block: re.Match[str]) -> str:
        return f"{block[1]} -->\n{blocks[block[1]]().rstrip()}\n" if block[1] in blocks else block[0]

    return BLOCK.sub(written, text)


def names(text: str) -> list[str]:
    """The names of the blocks in ``text``."""
    return BLOCK.findall(text)


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table in Markdown; columns whose header ends in a colon are aligned to the right."""
    ruler = ["---:" if name.endswith(":") else "---" for name in header]
    lines = [[name.rstrip(":") for name in header], ruler, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
