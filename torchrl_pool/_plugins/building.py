"""From a C++ file to a loaded plugin: one call of the system's compiler, kept in a cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

from torchrl_pool._plugins.loading import get_include, register

Sources: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

# No contraction of a * b + c: it would change results in the last bit.
_FLAGS = ("-std=c++20", "-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")


_CHECKED = "-DTORCHRL_POOL_CHECKED"


class BuildError(RuntimeError):
    """A plugin does not compile, or there is no compiler."""


def build_plugin(sources: Sources, *, flags: Sequence[str] = (), checked: bool = False) -> list[str]:
    """Compiles C++ files into a plugin, loads it, and registers its tasks for this process.

    The files include ``torchrl_pool/env.h``; neither CMake nor a checkout is needed. Nothing is compiled
    where the cache has the library already: see :func:`compile_plugin`. When the files have changed since an
    earlier call in this process, their new tasks take the place of the old ones; pools of those live on.

    Args:
        sources: one C++ file or several, which become one library.
        flags: further flags for the compiler, after the package's own, such as ``("-O1", "-g")`` or
            ``("-I/opt/engine/include", "-lengine")``.
        checked: whether to look for mistakes of the author: each use of a ``Row`` is compared with the specs
            (type and index), and a mistake becomes an :class:`~torchrl_pool.EnvFailure` that says which.
            Slower, and for tests.

    Returns:
        The ids of its tasks.

    Raises:
        FileNotFoundError: a source file does not exist.
        BuildError: there is no C++ compiler, or it finds errors, which the message shows.
        ValueError: what it built is no plugin, or brings a task id that another plugin has already.

    Examples:
        >>> torchrl_pool.build_plugin("walk.cc")  # doctest: +SKIP
        ['Walk-v0']
        >>> torchrl_pool.PoolEnv("Walk-v0", num_envs=64)  # doctest: +SKIP
    """
    files = _files(sources)
    library = compile_plugin(files, flags=flags, checked=checked)
    tasks = register(library, built_from=tuple(map(str, files)))
    note_build(library, files, tasks)
    return tasks


def compile_plugin(sources: Sources, *, flags: Sequence[str] = (), checked: bool = False) -> Path:
    """The path of the shared library that :func:`build_plugin` loads, compiled unless the cache has it.

    The cache is ``$XDG_CACHE_HOME/torchrl_pool``, by default ``~/.cache/torchrl_pool``. A library is found
    there again as long as the sources, every header that they include (but the compiler's own), the flags,
    the compiler's version and NumPy's are the same. Several processes may build at once. Files in the cache
    may be deleted at any time.

    The compiler is ``$CXX`` where that is set, else the first that exists of Python's own, ``c++``, ``g++``
    and ``clang++``. Raises as :func:`build_plugin` does.
    """
    files = _files(sources)
    compiler = _compiler()
    options = [*_FLAGS, *([_CHECKED] if checked else ()), f"-I{get_include()}"]
    command = [*compiler, *options, *map(str, files), *flags]
    folder = _cache_folder()
    library = folder / f"{files[0].stem}-{_digest(command, files)}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Under a name of its own until it is complete: another process may be building the same.
        with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as temporary:
            unfinished = Path(temporary) / library.name
            _run([*command, *_numpy_random(), "-o", str(unfinished)])
            os.replace(unfinished, library)
    return library


def note_build(library: Path, files: Sequence[Path], tasks: Sequence[str]) -> None:
    """Writes next to the library what it holds, for other processes: see :func:`built_from`."""
    note = library.with_suffix(".json")
    with tempfile.NamedTemporaryFile("w", dir=note.parent, suffix=".unfinished", delete=False) as unfinished:
        json.dump({"sources": [str(file) for file in files], "tasks": list(tasks)}, unfinished)
    os.replace(unfinished.name, note)


def built_from(task: str) -> list[str]:
    """The sources of the plugin with this task that was built last, if the cache has one."""
    newest, found = -math.inf, list[str]()
    try:
        notes = _cache_folder().glob("*.json")
    except BuildError:
        return []
    for note in notes:
        try:
            content = json.loads(note.read_text())
            sources, built = list(map(str, content["sources"])), note.stat().st_mtime
            fits = task in content["tasks"] and all(Path(source).is_file() for source in sources)
        except (OSError, ValueError, TypeError, KeyError):
            continue  # deleted meanwhile, or no note: the cache's folder is anybody's
        if fits and built > newest:
            newest, found = built, sources
    return found


def _files(sources: Sources) -> list[Path]:
    given = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    files = [Path(source).resolve() for source in given]
    if not files:
        raise ValueError("sources: expected at least one C++ file, got none")
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"sources: there is no file {file}")
    return files


def _cache_folder() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchrl_pool"
    except RuntimeError:  # in a container whose user has a number and no name, say
        why = "built plugins are kept in the home folder, and this user has none"
        raise BuildError(f"{why}: set XDG_CACHE_HOME to a folder") from None


def _compiler() -> list[str]:
    """The compiler's command, which may hold flags."""
    wished = shlex.split(os.environ.get("CXX", ""))
    if wished:
        if not shutil.which(wished[0]):
            raise BuildError(f"building a plugin needs a C++ compiler: $CXX names {wished[0]!r}, not found")
        return wished
    for candidate in (sysconfig.get_config_var("CXX") or "", "c++", "g++", "clang++"):
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return command
    raise BuildError(
        "building a plugin needs a C++ compiler: found none of c++, g++ and clang++. Install one with C++20 "
        "(gcc 11 or newer, clang 14 or newer), or name it in the environment variable CXX"
    )


def _numpy_random() -> list[str]:
    """NumPy's library of distributions, from which an env's normal draws come."""
    spec = importlib.util.find_spec("numpy")
    assert spec is not None  # torchrl_pool depends on it
    assert spec.origin is not None
    return [str(Path(spec.origin).parent / "random" / "lib" / "libnpyrandom.a")]


def _digest(command: Sequence[str], files: Sequence[Path]) -> str:
    """A name for all that the library depends on."""
    digest = hashlib.sha256()
    words = [*command, _version(command[0]), platform.machine(), importlib.metadata.version("numpy")]
    digest.update("\0".join(words).encode())
    for name in sorted({*_included(command), *map(str, files)}):
        digest.update(b"\0" + Path(name).read_bytes())
    return digest.hexdigest()[:16]


@cache
def _version(compiler: str) -> str:
    # Empty where a compiler has no such option: that is no reason not to use it.
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _included(command: Sequence[str]) -> list[str]:
    """The files that the compiler reads, system headers left out."""
    rules = _run([argument for argument in command if argument != "-shared"] + ["-MM"])
    # A make rule for each source: "walk.o: /path/walk.cc /path/with\ space.h /path/with\#and$$.h \".
    words = re.split(r"(?<!\\)\s+", rules.replace("\\\n", " "))
    return [re.sub(r"\\([ #])|\$(\$)", r"\1\2", word) for word in words if word and not word.endswith(":")]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(
            f"the plugin does not build: {shlex.join(command)}\nexited with {done.returncode}:\n"
            f"{(done.stderr or done.stdout).strip()}"
        )
    return done.stdout
