"""The tasks, their options, and how a user's options become a configuration."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchrl_pool import _core
from torchrl_pool.building import built_from
from torchrl_pool.plugins import broken_plugins, locate_packages, plugins
from torchrl_pool.suggestions import suggestion

_TYPE_NAMES = {
    "int_list": "list of int",
    "str_list": "list of str",
    "float_list": "list of float",
    "int_or_str": "int or str",
    "float_list_map": "mapping from names to a number or numbers",
}


@dataclass(frozen=True)
class OptionInfo:
    """An option of a task.

    Attributes:
        name: the keyword.
        type: ``"bool"``, ``"int"``, ``"float"``, ``"str"``, ``"int_list"``, ``"float_list"``,
            ``"str_list"``, ``"int_or_str"`` or ``"float_list_map"`` (a mapping from names to a number or
            numbers).
        default: its value where the user gives none.
        help: what it does.
        nullable: whether ``None`` is a value.
        choices: the only values allowed; empty: no such restriction.
        minimum: least value of a number, or of each element of a list.
        maximum: greatest value, likewise.
        fixed_count: length that a list must have; -1: any.
    """

    name: str
    type: str
    default: Any
    help: str
    nullable: bool
    choices: tuple[Any, ...]
    minimum: float
    maximum: float
    fixed_count: int

    def check(self, value: Any) -> Any:
        """``value`` in the option's own type.

        Raises:
            TypeError: the value has another type (an int does for a float, a tuple for a list).
            ValueError: the value is none of the choices or out of range.
        """
        if value is None and self.nullable:
            return None
        converted = _convert(self.type, value)
        if converted is None:
            wanted = _TYPE_NAMES.get(self.type, self.type) + (" or None" if self.nullable else "")
            raise TypeError(f"option {self.name!r}: expected {wanted}, got {value!r}")
        if self.choices and converted not in self.choices:
            raise ValueError(
                f"option {self.name!r}: expected one of {', '.join(map(repr, self.choices))}, got {value!r}"
            )
        elements = converted if isinstance(converted, list) else [converted]
        if self.fixed_count >= 0 and len(elements) != self.fixed_count:
            raise ValueError(f"option {self.name!r}: expected {self.fixed_count} elements, got {value!r}")
        for element in elements:
            if isinstance(element, (int, float)) and not self.minimum <= element <= self.maximum:
                raise ValueError(
                    f"option {self.name!r}: expected a number in [{self.minimum:g}, {self.maximum:g}], "
                    f"got {value!r}"
                )
        return converted


@dataclass(frozen=True)
class TaskInfo:
    """A registered task.

    Attributes:
        id: its name, as given to :class:`~torchrl_pool.PoolEnv`.
        family: the name of its plugin.
        description: one line.
        max_episode_steps: steps after which an episode is truncated; ``None``: no limit.
        reward_threshold: the return at which the task counts as solved; ``None``: none is registered.
        options: what its constructor takes.
        reset_options: what ``reset(options={…})`` takes, for one reset. Those without a value there have the
            constructor's, where it has an option of that name, else the default shown.
        can_render: whether :meth:`~torchrl_pool.PoolEnv.render` works.
        can_save: whether :meth:`~torchrl_pool.PoolEnv.get_state` works.
        plugin_path: the shared library that it comes from.
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

    Raises:
        ValueError: there is no such family.
    """
    families = {plugin.family for plugin in plugins()}
    if family is not None and family not in families:
        raise ValueError(f"unknown family {family!r}; known: {', '.join(sorted(families))}")
    return sorted(id for id, (plugin, _) in _tasks().items() if family in (None, plugin.family))


def task_info(task: str) -> TaskInfo:
    """What is known of a task.

    Raises:
        ValueError: there is no such task.
    """
    plugin, raw = find_task(task)
    options = {
        kind: tuple(OptionInfo(**{**o, "choices": tuple(o["choices"])}) for o in raw[kind])
        for kind in ("options", "reset_options")
    }
    return TaskInfo(**{**raw, **options}, family=plugin.family, plugin_path=plugin.path)


def find_task(task: str) -> tuple[_core.Plugin, dict[str, Any]]:
    """The plugin of a task and its description, or a ValueError with the nearest names."""
    if not isinstance(task, str):
        raise TypeError(f"task: expected the id of a task, got {task!r}")
    tasks = _tasks(discover=False)
    if task not in tasks:
        tasks = _tasks()  # those of installed packages, whose code runs only where it is needed
    if task not in tasks:
        if task.startswith("ALE/") and not any(plugin.family == "atari" for plugin in plugins()):
            raise ValueError(
                f"task {task!r}: this torchrl_pool was built without Atari (TORCHRL_POOL_ATARI=OFF)"
            )
        hint = suggestion(task, tasks)
        if sources := built_from(task):
            files = " ".join(sources)
            hint = (
                f"it was built from {files}, but is not loaded in this process: call build_plugin first, "
                f"or on the command line add --plugin {files}"
            )
        raise ValueError("\n".join([f"unknown task {task!r}; {hint}", *broken_plugins()]))
    return tasks[task]


def open_config(task: str, options: Mapping[str, Any]) -> _core.Config:
    """The configuration of a task with these options and defaults for the others.

    Raises:
        TypeError: the task has no such option, or the option another type.
        ValueError: there is no such task, or an option's value is not allowed.
    """
    plugin, _ = find_task(task)
    info = task_info(task)
    chosen = _check_options(task, "option", info.options, options)
    values = [chosen.get(option.name, option.default) for option in info.options]
    locate_packages(plugin)
    return _core.Config(plugin, task, values)


def open_reset_options(task: str, config: _core.Config, options: Mapping[str, Any]) -> _core.ResetOptions:
    """What was chosen for one reset of envs of a configuration of the task.

    Raises:
        TypeError: the task has no such reset option, or the option another type.
        ValueError: an option's value is not allowed.
    """
    chosen = _check_options(task, "reset option", task_info(task).reset_options, options)
    return _core.ResetOptions(config, chosen)


def _check_options(
    task: str, kind: str, known: Sequence[OptionInfo], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The values given, each in its option's own type."""
    options = {option.name: option for option in known}
    for name in given:
        if name not in options:
            near = difflib.get_close_matches(str(name), options, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise TypeError(
                f"task {task!r} has no {kind} {name!r}{hint}; it has: {', '.join(options) or 'none'}"
            )
    return {name: options[name].check(value) for name, value in given.items()}


def _tasks(*, discover: bool = True) -> dict[str, tuple[_core.Plugin, dict[str, Any]]]:
    tasks = {}
    for plugin in plugins(discover=discover):
        tasks.update(_tasks_of(plugin))
    return tasks


@functools.cache
def _tasks_of(plugin: _core.Plugin) -> dict[str, tuple[_core.Plugin, dict[str, Any]]]:
    """What a plugin says of its tasks, which never changes: read once, for some have a hundred."""
    return {task["id"]: (plugin, task) for task in plugin.tasks}


def _convert(type: str, value: Any) -> Any:
    """``value`` as this type, or None."""
    if type == "int_or_str":
        return value if isinstance(value, str) else _convert("int", value)
    if type == "float_list_map":
        return _convert_map(value)
    if type.endswith("_list"):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            value = [value]  # a number stands for a list of one
        elements = [_convert(type.removesuffix("_list"), element) for element in value]
        return None if None in elements else elements
    if type == "bool":
        return value if isinstance(value, bool) else None
    if type == "str":
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    if type == "int":
        return int(value) if hasattr(value, "__index__") else None
    if hasattr(value, "__float__") and not isinstance(value, str):
        number = float(value)
        return None if math.isnan(number) else number
    return None


def _convert_map(value: Any) -> dict[str, list[float]] | None:
    """A mapping from names to numbers, each a list of them."""
    if not isinstance(value, Mapping):
        return None
    map = {}
    for key, numbers in value.items():
        try:
            map[str(key)] = [float(number) for number in getattr(numbers, "flat", None) or _listed(numbers)]
        except (TypeError, ValueError):
            return None
    return map


def _listed(numbers: Any) -> Sequence[Any]:
    return numbers if isinstance(numbers, Sequence) else [numbers]
