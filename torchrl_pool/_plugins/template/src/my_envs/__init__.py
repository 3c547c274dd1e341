"""Environments for torchrl_pool: where this is installed, ``PoolEnv("Docking-v0", 64)`` works."""

from pathlib import Path


def plugin_path() -> Path:
    """The shared library that torchrl_pool loads.

    Raises:
        FileNotFoundError: this package was not built.
    """
    libraries = [Path(folder, "my_envs.so") for folder in __path__]
    for library in libraries:
        if library.exists():
            return library
    raise FileNotFoundError(
        f"my_envs is not built: there is no {' and no '.join(map(str, libraries))}; README.md says how"
    )
