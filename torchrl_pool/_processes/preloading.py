"""What is imported before workers are forked, once for all of a program: a few packages that are known.

Their imports start neither threads nor random streams that envs draw from, end no process, and read neither
``sys.argv`` nor the current folder. All else is imported by each worker.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

Modules: TypeAlias = "dict[str, tuple[str, ...]]"

#: Modules that are imported for all workers, for those of envs that need torch, and of TorchRL, which wraps
#: PettingZoo's too, with what GymEnv looks into where it is installed; and the packages that each needs.
_OF_ALL: Modules = {
    "torchrl_pool._workers.worker_process": ("numpy",),
    "torchrl_pool._workers.gymnasium_adapter": ("numpy", "gymnasium"),
}
_OF_TORCH: Modules = {"torch": ("numpy", "torch")}
_OF_TORCHRL: Modules = {
    **_OF_TORCH,
    "tensordict": ("numpy", "torch", "tensordict"),
    "torchrl.envs": ("numpy", "torch", "tensordict", "gymnasium", "torchrl"),
    "stable_baselines3.common.vec_env.base_vec_env": ("numpy", "torch", "gymnasium", "stable_baselines3"),
}
_SLOW: dict[str, Modules] = {
    "torch": _OF_TORCH,
    "tensordict": _OF_TORCHRL,
    "torchrl": _OF_TORCHRL,
    "pettingzoo": _OF_TORCHRL,
}
_PACKAGES = ("numpy", "gymnasium", "torch", "tensordict", "torchrl", "stable_baselines3")
_NOT_LOOKED_INTO = frozenset({"__main__", "__mp_main__", "numpy", "gymnasium", *sys.stdlib_module_names})
#: This package, which imports what is in it once that is used, and what of it needs no TorchRL.
_OWN = "torchrl_pool"
_OWN_WITHOUT_TORCH = tuple(
    f"{_OWN}.{part}" for part in ("_core", "_plugins", "_processes", "_texts", "_workers")
)
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


def known_packages() -> list[str]:
    """Those of the packages that this program would import from where installed ones lie, or not find."""
    return [package for package in _PACKAGES if _is_known(package)]


def needed_by_all() -> list[str]:
    """Modules that every worker needs."""
    return _of_known(_OF_ALL)


def needed_by(names: Iterable[str]) -> list[str]:
    """Modules that envs need besides.

    Args:
        names: of the modules that what makes the envs imports.
    """
    found: Modules = {}
    seen = set(waiting := list(names))
    for name in waiting:  # which grows
        package, module = name.partition(".")[0], sys.modules.get(name)
        if package in _SLOW:
            found.update(_SLOW[package])
        elif package == _OWN:
            if name != _OWN and not name.startswith(_OWN_WITHOUT_TORCH):
                found.update(_OF_TORCHRL)
        elif package not in _NOT_LOOKED_INTO and isinstance(module, types.ModuleType):
            values = list(_contents(module).values())
            new = {other for value in values for other in modules_named_by(value)} - seen
            seen |= new
            waiting += new
    return _of_known(found) if found else []


def modules_named_by(value: Any) -> Iterator[str]:
    """Where a function or a class comes from, a module itself, and what code may import."""
    kind = type(value)  # which nothing pretends to be
    name: Any = None
    if issubclass(kind, types.CodeType):
        yield from value.co_names
    elif issubclass(kind, types.ModuleType):
        name = _contents(value).get("__name__")
    elif issubclass(kind, type | types.FunctionType):
        with contextlib.suppress(Exception):  # a class may compute it
            name = value.__module__
    if isinstance(name, str):
        yield name


def _contents(module: types.ModuleType) -> dict[str, Any]:
    """What is in a module, which a lazy one is not loaded for."""
    found: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def _of_known(modules: Mapping[str, Sequence[str]]) -> list[str]:
    """The modules all of whose packages are known."""
    known = known_packages()
    if "torch" in known and any("torch" in packages for packages in modules.values()):
        # torch imports what is installed for other devices, of which nobody knows what it does.
        known = [one for one in known if one != "torch" or not entry_points(group="torch.backends")]
    return [module for module, packages in modules.items() if set(packages) <= set(known)]


def _is_known(package: str) -> bool:
    try:
        spec = find_spec(package)  # which imports nothing
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is None or _is_for_installed(spec.origin or "")


def folders() -> list[str]:
    """Those of ``sys.path`` whose files do not change while a program runs, and this package's."""
    here = str(Path(__file__).parents[2])
    return [*filter(_is_for_installed, map(str, sys.path)), here]


def _is_for_installed(path: str) -> bool:
    parts = Path(path).parts
    return path.startswith(_STANDARD_LIBRARY) or "site-packages" in parts or "dist-packages" in parts
