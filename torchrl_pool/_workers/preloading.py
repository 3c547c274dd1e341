"""What is imported before workers are forked, once for all of a program: a few packages that are known.

Their imports start neither threads nor random streams that envs draw from, end no process, and read neither
``sys.argv`` nor the current folder. All else is imported by each worker.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

#: Modules of this package that bring NumPy and Gymnasium along.
_OF_ALL = ("torchrl_pool._workers.worker_process", "torchrl_pool._workers.gymnasium_adapter")
#: TorchRL's envs, and what GymEnv looks into where it is installed.
_OF_TORCHRL = ("torchrl.envs", "stable_baselines3.common.vec_env.base_vec_env")
#: Of each package whose import takes seconds what its envs need.
_SLOW = {
    "torch": ("torch",),
    "tensordict": ("tensordict",),
    "torchrl": _OF_TORCHRL,
    "pettingzoo": _OF_TORCHRL,  # its envs are wrapped by TorchRL's
}
_KNOWN = frozenset({"numpy", "gymnasium", *_SLOW})
_NOT_LOOKED_INTO = frozenset(
    {"__main__", "__mp_main__", "torchrl_pool", "numpy", "gymnasium", *sys.stdlib_module_names}
)
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def needed_by_all() -> list[str]:
    """Modules that every worker needs."""
    return list(_OF_ALL) if _are_installed() else []


def needed_by(names: Iterable[str]) -> list[str]:
    """Modules that envs need besides.

    Args:
        names: of the modules that what makes the envs imports.
    """
    found: set[str] = set()
    seen = set(waiting := list(names))
    for name in waiting:  # which grows
        package = name.partition(".")[0]
        if package in _SLOW:
            found.update(_SLOW[package])
        elif package not in _NOT_LOOKED_INTO and name in sys.modules:
            values = list(vars(sys.modules[name]).values())
            new = {other for value in values for other in modules_named_by(value)} - seen
            seen |= new
            waiting += new
    return sorted(found) if _are_installed() else []


def modules_named_by(value: Any) -> Iterator[str]:
    """Where a function or a class comes from, a module itself, and what code may import."""
    kind = type(value)  # which nothing pretends to be
    if issubclass(kind, types.CodeType):
        yield from value.co_names
    elif issubclass(kind, types.ModuleType | type | types.FunctionType):
        name = value.__name__ if issubclass(kind, types.ModuleType) else value.__module__
        if isinstance(name, str):
            yield name


def folders() -> list[str]:
    """Those of ``sys.path`` whose files do not change while a program runs, and this package's."""
    here = str(Path(__file__).parents[2])
    return [*filter(_is_for_installed, map(str, sys.path)), here]


def _are_installed() -> bool:
    """Whether the packages that this program has loaded lie there."""
    loaded = [sys.modules[name] for name in _KNOWN if name in sys.modules]
    return all(_is_for_installed(getattr(module, "__file__", None) or "") for module in loaded)


def _is_for_installed(path: str) -> bool:
    parts = Path(path).parts
    return path.startswith(_STANDARD_LIBRARY) or "site-packages" in parts or "dist-packages" in parts
