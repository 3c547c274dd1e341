"""Plugins that tests need, built as a stranger would build theirs: one compiler call, installed headers."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import torchrl_pool

_SOURCES = Path(__file__).parent / "plugins"
_BUILT = tempfile.TemporaryDirectory(prefix="torchrl_pool_plugins_")


@cache
def build_plugin(name: str) -> str:
    """Path of the shared library built from ``tests/plugins/<name>.cc``."""
    library = Path(_BUILT.name) / f"lib{name}.so"
    compiler = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    subprocess.run(
        [
            *compiler.split(),
            *("-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"),
            f"-I{torchrl_pool.get_include()}",
            str(_SOURCES / f"{name}.cc"),
            *("-o", str(library)),
        ],
        check=True,
    )
    return str(library)


def load_fault_plugin() -> None:
    torchrl_pool.load_plugin(build_plugin("fault"))
