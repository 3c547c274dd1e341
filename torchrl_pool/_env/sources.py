"""Which source the envs of a task come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from torchrl_pool._env.python_source import PythonSource, is_python
from torchrl_pool._env.source import PluginSource, Source
from torchrl_pool._plugins.names import task_ids

# The id of a task, dm_control's name of one, or what makes an env of Python.
Task: TypeAlias = "str | tuple[str, str] | Callable[[], Any]"


def known_task(task: Task | Sequence[Task]) -> Any:
    """The task with the ids that dm_control's names stand for.

    Raises:
        TypeError: it is an env, rather than what makes one.
    """
    if hasattr(task, "step") and not isinstance(task, type):
        raise TypeError(
            "task: expected a callable that returns an env, got an env "
            f"({type(task).__name__}); pass `lambda: env_class(...)`, which its worker process calls"
        )
    return task_ids(task)


def source_of(
    task: Any,
    num_envs: int,
    *,
    of_threads: Mapping[str, Any],
    of_workers: Mapping[str, Any],
    from_pixels: bool,
    **common: Any,
) -> Source:
    """The source of a pool's envs.

    Args:
        of_threads: what only :class:`PluginSource` takes, ``None`` where it was not given.
        of_workers: what only :class:`PythonSource` takes.
        **common: what both take.

    Raises:
        TypeError: an argument that is for the other kind of envs.
    """
    if is_python(task):
        native = {**of_threads, "from_pixels": from_pixels or None}
        if given := [name for name, value in native.items() if value is not None]:
            raise TypeError(
                f"{', '.join(given)}: expected with native tasks alone, got with Python envs: see "
                "num_workers, and for options a list of callables"
            )
        return PythonSource(task, num_envs, **of_workers, **common)
    if of_workers["num_workers"] != 0 or of_workers["respawn"]:
        raise TypeError(
            "num_workers, respawn: expected with Python envs alone, got them with "
            f"{task!r}, a native task, which runs in threads: see num_threads"
        )
    return PluginSource(task, num_envs, **of_threads, **common)
