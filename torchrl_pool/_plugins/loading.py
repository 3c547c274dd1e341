"""Where plugins come from: the package's own folder, paths that the user names, and installed packages.

An installed package announces its plugin by an entry point of the group ``torchrl_pool.plugins``::

    [project.entry-points."torchrl_pool.plugins"]
    my_envs = "my_envs:plugin_path"

The entry point names the path of the shared library (``str`` or ``os.PathLike``), a callable that takes no
arguments and returns it, or a module that has one of the two under the name ``plugin_path``. It is read, and
the plugin loaded, when a task is asked for that no loaded plugin has, or when tasks are listed. One that
cannot be loaded is left out with a warning, which later errors about unknown tasks repeat.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import traceback
import warnings
from pathlib import Path
from types import ModuleType

from torchrl_pool import _core
from torchrl_pool._plugins.library_file import check_is_whole

# Next to the extension, not to this file: an editable install keeps the two apart.
_INSTALLED = Path(_core.__file__).parent

ENTRY_POINTS = "torchrl_pool.plugins"

_plugins: dict[str, _core.Plugin] = {}
_digests: dict[str, bytes] = {}  # of the libraries, but for the package's own
_located: set[str] = set()
_builtin_loaded = False
_built: dict[tuple[str, ...], str] = {}  # what build_plugin made of which sources
_discovered: set[str] | None = None  # paths that entry points gave; None: not asked yet
_broken: list[str] = []  # what went wrong with entry points


def get_include() -> str:
    """The folder to put on the include path when building a plugin (``torchrl_pool/env.h`` lies below it).

    Examples:
        >>> from pathlib import Path
        >>> from torchrl_pool import get_include
        >>> Path(get_include()).name
        'include'
    """
    return str(_INSTALLED / "include")


def load_plugin(path: str | os.PathLike[str]) -> list[str]:
    """Loads a plugin and registers its tasks for this process.

    Loading a plugin runs its code. Loading it again changes nothing: a process keeps the code that it has
    loaded. A new build needs a name of its own, as :func:`~torchrl_pool.build_plugin` gives it.

    Args:
        path: the shared library.

    Returns:
        The ids of its tasks.

    Raises:
        FileNotFoundError: the library, or one that it needs, cannot be loaded.
        ValueError: it is no plugin, was built for another ABI version, lacks a required function, or brings a
            task id that another plugin has already, or another build of it was loaded from this path before.

    Examples:
        >>> from torchrl_pool import load_plugin, task_info
        >>> "CartPole-v1" in load_plugin(task_info("CartPole-v1").plugin_path)
        True
    """
    ids = register(path)
    library = Path(path).resolve()
    digest = _digests.get(str(library))
    if digest is not None and library.exists() and _digest(library) != digest:
        raise ValueError(
            f"{library} is another build than the one that this process has loaded, which stays: give "
            "the new one another name, or begin a new process"
        )
    return ids


def register(path: str | os.PathLike[str], built_from: tuple[str, ...] | None = None) -> list[str]:
    """The ids of a plugin's tasks; an earlier build of the same sources is replaced."""
    name = str(Path(path).resolve())
    if name not in _plugins:
        check_is_whole(Path(name))
        plugin = _core.load_plugin(name)
        earlier = _built.get(built_from or ())
        taken = {
            task["id"]: other.path
            for other in plugins(discover=False)
            for task in other.tasks
            if other.path != earlier
        }
        for task in plugin.tasks:
            if task["id"] in taken:
                raise ValueError(
                    f"{name} brings the task {task['id']!r}, which {taken[task['id']]} has already"
                )
        if earlier is not None:
            _plugins.pop(earlier, None)
        _plugins[name] = plugin
        if not is_builtin(plugin):
            _digests[name] = _digest(Path(name))
    if built_from is not None:
        _built[built_from] = name
    return [task["id"] for task in _plugins[name].tasks]


def _digest(library: Path) -> bytes:
    return hashlib.sha256(library.read_bytes()).digest()


def plugins(*, discover: bool = True) -> list[_core.Plugin]:
    """All plugins known to this process; loads the package's own on the first call.

    Args:
        discover: whether to load those of installed packages too, once.
    """
    global _builtin_loaded
    if not _builtin_loaded:
        _builtin_loaded = True
        for path in sorted((_INSTALLED / "_plugins").glob("*.so")):
            register(path)
    if discover and _discovered is None:
        _discover()
    return list(_plugins.values())


def _discover() -> None:
    global _discovered
    _discovered = set()  # first: an entry point may ask for tasks itself
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda e: e.name):
        try:
            path = _library_of(entry.load())
            register(path)
        except Exception as error:  # an error in foreign code must not take the other tasks away
            package = f" of {entry.dist.name}" if entry.dist else ""
            reason = "".join(traceback.format_exception_only(error)).strip()
            broken = f"the plugin {entry.name!r}{package} ({entry.value}) cannot be loaded: {reason}"
            _broken.append(broken)
            warnings.warn(broken, RuntimeWarning, stacklevel=2)
        else:
            _discovered.add(str(path.resolve()))


def _library_of(named: object) -> Path:
    """The path that an entry point's object gives."""
    if isinstance(named, ModuleType):
        named = getattr(named, "plugin_path", named)
    path = named() if callable(named) else named
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            "expected the path of a shared library, a callable that returns it, or a module with one of the "
            f"two as 'plugin_path', got {path!r}"
        )
    return Path(path)


def broken_plugins() -> list[str]:
    """What went wrong with the plugins of installed packages: one message for each."""
    return list(_broken)


def locate_packages(plugin: _core.Plugin) -> None:
    """Finds the Python packages whose files the plugin's tasks read, once, without importing them.

    Of one that is missing the task tells where it needs it.

    Raises:
        ImportError: the version of one is not the only one that will do.
    """
    if plugin.path in _located:
        return
    folders = []
    for name, version in plugin.packages:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            folders.append("")
            continue
        if version is not None and (found := importlib.metadata.version(name)) != version:
            raise ImportError(
                f"the tasks of the family {plugin.family!r} need the Python package {name!r} in version "
                f"{version}, for which their plugin was built, found {found}: install that version, or build "
                "the plugin again",
                name=name,
            )
        folders.append(spec.submodule_search_locations[0])
    plugin.locate(folders)
    _located.add(plugin.path)


def is_builtin(plugin: _core.Plugin) -> bool:
    """Whether every process finds this plugin by itself: the package's own, or an installed package's."""
    if plugin.path in (_discovered or ()):
        return True
    return Path(plugin.path).parent == (_INSTALLED / "_plugins").resolve()
