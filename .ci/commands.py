#!/usr/bin/env python3
"""Runs the commands of documents to the letter: every line of their bash blocks, in order, as at a prompt.

    .ci/commands.py README.md CONTRIBUTING.md

The commands of one document share a shell, whose folder is the checkout; the first that fails ends all. Files
that they leave behind are removed, unless git ignores them. A block after the line ``<!-- long -->`` is left
out, unless --long is given.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^(<!-- long -->\n)?```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(document: Path, long: bool) -> list[str]:
    """The lines of the bash blocks; one that ends in a backslash goes on in the next."""
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    lines = "".join(text for is_long, text in blocks if long or not is_long)
    return [line for line in re.split(r"(?<!\\)\n", lines) if line.strip()]


def script(document: Path, long: bool) -> str:
    """A shell's input that runs the commands, shows each before, and its seconds after."""
    steps = ["cd " + shlex.quote(str(CHECKOUT))]
    for command in commands(document, long):
        steps.append(f"printf '\\n%s $ %s\\n' {document.name} {shlex.quote(command)}; SECONDS=0")
        steps.append(command)
        steps.append('status=$?; echo "-- exit $status after $SECONDS s"; [ $status = 0 ] || exit $status')
    return "\n".join(steps) + "\n"


def leftovers() -> set[Path]:
    """What lies in the checkout, neither in git nor ignored by it; and the hook that pre-commit installs."""
    found = _git("ls-files", "--others", "--exclude-standard", "--directory").splitlines()
    hook = CHECKOUT / _git("rev-parse", "--git-path", "hooks/pre-commit").strip()
    return {CHECKOUT / name for name in found} | ({hook} if hook.exists() else set())


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("document", nargs="+", type=Path)
    parser.add_argument("--long", action="store_true", help="run the long blocks too")
    parser.add_argument("--list", action="store_true", help="print the commands, long ones too, and run none")
    parsed = parser.parse_args()
    if parsed.list:
        for document in parsed.document:
            print(*commands(document, long=True), sep="\n")
        return 0
    before = leftovers()
    status = 0
    try:
        for document in parsed.document:
            # As a file, not as input: the commands have none.
            done = subprocess.run(["bash", "-c", script(document, parsed.long)], stdin=subprocess.DEVNULL)
            status = status or done.returncode
            if status:
                break
    finally:
        for path in leftovers() - before:
            subprocess.run(["rm", "-r", str(path)], check=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
