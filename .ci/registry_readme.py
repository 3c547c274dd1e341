#!/usr/bin/env python3
"""README as registries show it, which have no other file of the checkout: its links lead to the repository.

    .ci/registry_readme.py >README.registry.md

For what is released; in a checkout links stay relative, and work without a network.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
RELATIVE = re.compile(r"(?<=\]\()(?![a-z]+:|#)")
PICTURE = re.compile(r'(?<=src="|set=")(?![a-z]+:)')


def readme() -> str:
    """Its text, with links to the files of this version."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    source, tag = project["urls"]["Source"], f"v{project['version']}"
    text = RELATIVE.sub(f"{source}/blob/{tag}/", (CHECKOUT / "README.md").read_text())
    return PICTURE.sub(f"{source}/raw/{tag}/", text)


if __name__ == "__main__":
    print(readme(), end="")
