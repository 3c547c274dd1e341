"""The tasks, and how a user's options become a configuration."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchrl_pool import _core
from torchrl_pool._plugins.building import built_from
from torchrl_pool._plugins.loading import broken_plugins, locate_packages, plugins
from torchrl_pool._plugins.options import OptionInfo, check_options

# What a build may leave out: how the ids of its tasks begin, what it is called, and how it is left out.
_ONLY_ON_3_17 = "or another release of MuJoCo than 3.17.0"
_LEFT_OUT = {
    "atari": (("ALE/",), "Atari (TORCHRL_POOL_ATARI=OFF)"),
    "box2d": (
        ("LunarLander", "BipedalWalker", "CarRacing", "sisl/multiwalker"),
        "Box2D (TORCHRL_POOL_BOX2D=OFF)",
    ),
    "dm_control": (("dm_control/",), f"dm_control's suite (TORCHRL_POOL_DM_CONTROL=OFF, {_ONLY_ON_3_17})"),
    "robotics": (
        ("Fetch", "PointMaze", "AntMaze"),
        f"Gymnasium-Robotics (TORCHRL_POOL_ROBOTICS=OFF, {_ONLY_ON_3_17})",
    ),
}


@dataclass(frozen=True)
class TaskInfo:
    """A registered task.

    Attributes:
        id: its name, as given to :class:`~torchrl_pool.PoolEnv`.
        family: the name of its plugin.
        description: one line.
        max_episode_steps: steps after which the pool truncates an episode; ``None``: it does not (MiniGrid's
            and Atari's tasks have options for limits of their own).
        reward_threshold: the return at which the task counts as solved; ``None``: none is registered.
        options: what its constructor takes.
        reset_options: what ``reset(options={…})`` takes, for one reset. Those without a value there have the
            constructor's, where it has an option of that name, else the default shown.
        can_render: whether :meth:`~torchrl_pool.PoolEnv.render` works.
        can_save: whether :meth:`~torchrl_pool.PoolEnv.get_state` works.
        plugin_path: the shared library that it comes from.

    Examples:
        >>> from torchrl_pool import task_info
        >>> info = task_info("CartPole-v1")
        >>> info.family, info.max_episode_steps, info.reward_threshold
        ('classic', 500, 475.0)
    """

    id: str
    family: str
    description: str
    max_episode_steps: int | None
    reward_threshold: float | None
    options: tuple[OptionInfo, ...]
    reset_options: tuple[OptionInfo, ...]
    can_render: bool
    can_save: bool
    plugin_path: str


def list_tasks(family: str | None = None) -> list[str]:
    """The ids of all tasks, or of one family's, sorted.

    Args:
        family: such as ``"mujoco"``; ``None``: all families.

    Raises:
        ValueError: there is no such family.

    Examples:
        >>> from torchrl_pool import list_tasks
        >>> list_tasks("classic")[:2]
        ['Acrobot-v1', 'CartPole-v0']
    """
    families = {plugin.family for plugin in plugins()}
    if family is not None and family not in families:
        raise ValueError(f"unknown family {family!r}; expected one of: {', '.join(sorted(families))}")
    return sorted(id for id, (plugin, _) in _tasks().items() if family in (None, plugin.family))


def task_info(task: str) -> TaskInfo:
    """Specs, options and limits of a task.

    Args:
        task: its id.

    Raises:
        ValueError: there is no such task.

    Examples:
        >>> from torchrl_pool import task_info
        >>> task_info("Pendulum-v1").description
        'swing a pendulum up and hold it there'
    """
    plugin, raw = find_task(task)
    options = {
        kind: tuple(OptionInfo(**{**o, "choices": tuple(o["choices"])}) for o in raw[kind])
        for kind in ("options", "reset_options")
    }
    return TaskInfo(**{**raw, **options}, family=plugin.family, plugin_path=plugin.path)


def versions() -> dict[str, str]:
    """The reference implementation and release of each family, and this package's own release.

    References are compiled in or part of the package: other releases that are installed make no difference.

    Examples:
        >>> from torchrl_pool import versions
        >>> versions()["toy_text"]
        'Gymnasium 1.4.0'
    """
    own = importlib.metadata.version("torchrl_pool")
    return {"torchrl_pool": own, **{plugin.family: plugin.version for plugin in plugins()}}


def is_task(task: str) -> bool:
    """Whether a plugin that is loaded has a task of this id."""
    return task in _tasks(discover=False)


def find_task(task: str) -> tuple[_core.Plugin, dict[str, Any]]:
    """The plugin of a task and its description, or a ValueError with the nearest names."""
    if not isinstance(task, str):
        raise TypeError(f"task: expected the id of a task, got {task!r}")
    tasks = _tasks(discover=False)
    if task not in tasks:
        tasks = _tasks()  # those of installed packages, whose code runs only where it is needed
    if task not in tasks:
        for family, (beginnings, left_out) in _LEFT_OUT.items():
            if task.startswith(beginnings) and not any(plugin.family == family for plugin in plugins()):
                raise ValueError(f"task {task!r}: this torchrl_pool was built without {left_out}")
        near = difflib.get_close_matches(task, tasks, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?"
        if not near:
            hint = "list_tasks() and `torchrl-pool list` name all; 'gymnasium:ID' makes an env of Gymnasium's"
        if task.startswith("gymnasium:"):
            id = task.rsplit(":", 1)[1]
            native = f"; this package has {id!r} itself" if id in tasks else ""
            hint = f"ids that begin with 'gymnasium:' are for PoolEnv and `torchrl-pool info` alone{native}"
        if sources := built_from(task):
            files = " ".join(sources)
            hint = (
                f"it was built from {files}, but is not loaded in this process: call build_plugin first, "
                f"or on the command line add --plugin {files}"
            )
        raise ValueError("\n".join([f"unknown task {task!r}; {hint}", *broken_plugins()]))
    return tasks[task]


def checked_options(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a task, each in its own type; errors as :func:`open_config`."""
    return check_options(task, "option", task_info(task).options, options)


def open_config(task: str, options: Mapping[str, Any]) -> _core.Config:
    """The configuration of a task with these options and defaults for the others.

    Raises:
        TypeError: the task has no such option, or the option another type.
        ValueError: there is no such task, or an option's value is not allowed.
    """
    plugin, _ = find_task(task)
    chosen = checked_options(task, options)
    values = [chosen.get(option.name, option.default) for option in task_info(task).options]
    locate_packages(plugin)
    return _core.Config(plugin, task, values)


def checked_reset_options(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen for one reset of envs of the task, each in its own type.

    Raises:
        TypeError: the task has no such reset option, or the option another type.
        ValueError: an option's value is not allowed.
    """
    return check_options(task, "reset option", task_info(task).reset_options, options)


def _tasks(*, discover: bool = True) -> dict[str, tuple[_core.Plugin, dict[str, Any]]]:
    tasks = {}
    for plugin in plugins(discover=discover):
        tasks.update(_tasks_of(plugin))
    return tasks


@functools.cache
def _tasks_of(plugin: _core.Plugin) -> dict[str, tuple[_core.Plugin, dict[str, Any]]]:
    """What a plugin says of its tasks, which never changes: read once, for some have a hundred."""
    return {task["id"]: (plugin, task) for task in plugin.tasks}
