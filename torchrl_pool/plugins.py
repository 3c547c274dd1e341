"""Where plugins come from: the package's own folder, and paths that the user names."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path

from torchrl_pool import _core

# Beside the extension, not beside this file: an editable install keeps the two apart.
_INSTALLED = Path(_core.__file__).parent

_plugins: dict[str, _core.Plugin] = {}
_located: set[str] = set()
_builtin_loaded = False


def get_include() -> str:
    """The folder to put on the include path when building a plugin (``torchrl_pool/env.h`` lies below it)."""
    return str(_INSTALLED / "include")


def load_plugin(path: str | os.PathLike[str]) -> list[str]:
    """Loads a plugin and registers its tasks for this process.

    Loading a plugin runs its code. Loading it again changes nothing.

    Args:
        path: the shared library.

    Returns:
        The ids of its tasks.

    Raises:
        FileNotFoundError: the library, or one that it needs, cannot be loaded.
        ValueError: it is no plugin, was built for another ABI version, lacks a required function, or brings a
            task id that another plugin has already.
    """
    name = str(Path(path).resolve())
    if name not in _plugins:
        plugin = _core.load_plugin(name)
        taken = {task["id"]: other.path for other in plugins() for task in other.tasks}
        for task in plugin.tasks:
            if task["id"] in taken:
                raise ValueError(
                    f"{name} brings the task {task['id']!r}, which {taken[task['id']]} has already"
                )
        _plugins[name] = plugin
    return [task["id"] for task in _plugins[name].tasks]


def plugins() -> list[_core.Plugin]:
    """All plugins known to this process; loads the package's own on the first call."""
    global _builtin_loaded
    if not _builtin_loaded:
        _builtin_loaded = True
        for path in sorted((_INSTALLED / "plugins").glob("*.so")):
            load_plugin(path)
    return list(_plugins.values())


def locate_packages(plugin: _core.Plugin) -> None:
    """Finds the Python packages that the plugin's tasks need, once, without importing them.

    Raises:
        ImportError: one of them is missing, or its version is not the one that the plugin was built for.
    """
    if plugin.path in _located:
        return
    folders = []
    for name, version in plugin.packages:
        needs = f"the tasks of the family {plugin.family!r} need the Python package {name!r}"
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{needs}, which is not installed", name=name)
        found = importlib.metadata.version(name)
        if version not in (None, found):
            raise ImportError(
                f"{needs} in version {version}, for which torchrl_pool was built, found {found}: "
                "install that version, or build torchrl_pool again",
                name=name,
            )
        folders.append(spec.submodule_search_locations[0])
    plugin.locate(folders)
    _located.add(plugin.path)


def is_builtin(plugin: _core.Plugin) -> bool:
    """Whether every process finds this plugin by itself."""
    return Path(plugin.path).parent == (_INSTALLED / "plugins").resolve()
