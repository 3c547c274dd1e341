"""Environments for torchrl_pool: where this is installed, ``PoolEnv("Docking-v0", 64)`` works."""

from pathlib import Path


def plugin_path() -> Path:
    """The shared library that torchrl_pool loads."""
    return next(library for folder in __path__ for library in Path(folder).glob("*.so"))
