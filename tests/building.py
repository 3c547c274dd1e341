"""Plugins that tests need, built as a stranger would build theirs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torchrl_pool
from torchrl_pool._plugins.building import compile_plugin

SOURCES = Path(__file__).parent / "plugins"


@cache
def build_plugin(name: str) -> str:
    """Path of the shared library built from ``tests/plugins/<name>.cc``."""
    return str(compile_plugin(SOURCES / f"{name}.cc", flags=("-O1",)))


def load_fault_plugin() -> None:
    torchrl_pool.load_plugin(build_plugin("fault"))
