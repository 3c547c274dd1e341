"""A package of one's own, from the template."""

from __future__ import annotations

import importlib.metadata
import keyword
import shutil
import sys
from pathlib import Path

_TEMPLATE = Path(__file__).parent / "template"
_NAME = "my_envs"  # what the template calls itself


def new_package(name: str, parent: Path) -> Path:
    """Writes a package of C++ envs, with one env, its twin and its tests, to the folder ``parent / name``.

    Raises:
        ValueError: the name is no Python identifier, or an installed package has it.
        FileExistsError: there is a file or folder of that name.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise ValueError(f"name: expected a name that Python can import, got {name!r}")
    if name in sys.stdlib_module_names or name in importlib.metadata.packages_distributions():
        raise ValueError(f"name: expected one that is free, {name!r} is that of an installed package")
    folder = parent / name
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    shutil.copytree(_TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__", "build", "*.so"))
    (folder / "src" / _NAME).rename(folder / "src" / name)
    for file in folder.rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(_NAME, name), encoding="utf-8")
    return folder
