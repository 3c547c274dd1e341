"""Text in the documents that a program writes: between two comments, in place.

<!-- generated: NAME -->
…
<!-- end of generated -->
"""

from __future__ import annotations

import argparse
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


def write(description: str | None, texts: Callable[[], dict[str, str]]) -> int:
    """A program that writes documents, or with ``--check`` says which of them differ; its exit status.

    Args:
        description: of the program.
        texts: gives what each file shall hold, by its path in the checkout.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 where a file differs"
    )
    check = parser.parse_args().check
    different = 0
    for name, text in texts().items():
        path = CHECKOUT / name
        if not path.exists() or path.read_text() != text:
            different += 1
            print(name)
            if not check:
                path.write_text(text)
    return int(check and different > 0)
