"""What the commands ``list`` and ``info`` tell of tasks."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torchrl_pool import _core
from torchrl_pool._plugins.groups import groups_of
from torchrl_pool._plugins.names import gymnasium_id
from torchrl_pool._plugins.options import OptionInfo
from torchrl_pool._plugins.registry import TaskInfo, list_tasks, open_config, task_info, versions
from torchrl_pool._tables import print_table
from torchrl_pool._workers.adapters import adapt
from torchrl_pool._workers.gymnasium_make import NotRegistered, make_gymnasium

_GYMNASIUM = "gymnasium:"
#: Options by which tasks limit their episodes themselves, whatever the pool's ``max_episode_steps`` is.
_OWN_LIMITS = {"max_cycles": "steps", "max_steps": "steps", "max_num_frames_per_episode": "frames"}


def show_tasks(family: str | None, as_json: bool) -> None:
    """Prints all tasks, or those of a family.

    Raises:
        ValueError: there is no such family.
    """
    tasks = [task_info(task) for task in list_tasks(family)]
    if as_json:
        print(json.dumps([_summary(task) for task in tasks], indent=2))
        return
    sizes = Counter(task.family for task in tasks)
    tasks.sort(key=lambda task: (sizes[task.family], task.family))  # small families are seen at once
    rows = [(task.id, task.family, _limit(task, "-"), _or_dash(task.reward_threshold)) for task in tasks]
    print_table(("task", "family", "time limit", "solved at"), rows)
    if family is None:
        some = tasks[-1]
        print(f"\n{len(tasks)} tasks in {len(sizes)} families: list --family {some.family}; info {some.id}")


def show_task(name: str, as_json: bool) -> None:
    """Prints what there is to know of a task, or of an env that Gymnasium makes (``gymnasium:ID``).

    Raises:
        ImportError: Gymnasium is not installed.
        ValueError: there is no such task.
    """
    shown = _of_gymnasium(name) if name.startswith(_GYMNASIUM) else _of_plugin(name)
    if as_json:
        print(json.dumps(shown.as_dict(), indent=2))
    else:
        shown.print()


@dataclass(frozen=True)
class _Shown:
    task: TaskInfo
    config: _core.Config
    reference: str  # whose numbers it has

    def as_dict(self) -> dict[str, Any]:
        return {
            **_summary(self.task),
            "specs": [_spec_dict(spec, self.config) for spec in _entries(self.config)],
            "options": [_option_dict(option) for option in self.task.options],
            "reset_options": [_option_dict(option) for option in self.task.reset_options],
            "native_info_keys": self.config.native_keys,
        }

    def print(self) -> None:
        task, config, specs = self.task, self.config, _entries(self.config)
        print(f"{task.id}  (family {task.family}){': ' + task.description if task.description else ''}")
        none = "none" if task.plugin_path else "none registered"
        limit = _limit(task, none, " (option {})")
        print(f"time limit: {limit}; solved at a return of: {_or_dash(task.reward_threshold)}")
        print(f"render: {_yes(task.can_render)}; get_state and set_state: {_yes(task.can_save)}")
        print(f"same numbers as: {self.reference}")
        if task.plugin_path and (name := gymnasium_id(task.id)):
            print(f"gymnasium.make_vec: {name!r}, after import torchrl_pool.gymnasium")
        print("\nEntries of one env in PoolEnv")
        forms = [(_shape(spec, config), _values(spec, config)) for spec in specs]
        rows = [
            (spec.name, spec.role, spec.dtype, *form, "see below" if _elements(spec) else spec.help)
            for spec, form in zip(specs, forms, strict=True)
        ]
        print_table(("name", "role", "dtype", "shape", "values", "meaning"), rows)
        if any(_is_one_hot(spec, config) for spec in specs):
            print("\nWith categorical_action_encoding=True choices are numbers instead of one-hot vectors.")
        elif any(spec.categories for spec in specs if spec.role == "action"):
            print("\nWith categorical_action_encoding=False choices are one-hot vectors instead of numbers.")
        for spec in specs:
            if names := _elements(spec):
                print(f"\n{'Choices' if len(spec.categories) == 1 else 'Elements'} of {spec.name!r}")
                print_table(("index", "meaning"), [(str(i), name) for i, name in enumerate(names)])
        print(f"\nInfo keys of every task: {', '.join(config.native_keys)}")
        for title, options in (("Options", task.options), ("Options of a reset", task.reset_options)):
            if options:
                print(f"\n{title}")
                table = [(o.name, _type(o), _shortened(repr(o.default)), o.help) for o in options]
                print_table(("name", "type", "default", "meaning"), table)


def _of_plugin(name: str) -> _Shown:
    task = task_info(name)
    return _Shown(task, open_config(task.id, {}), versions()[task.family])


def _of_gymnasium(name: str) -> _Shown:
    """One is made, in this process, and tried: so a pool learns of it, too."""
    import gymnasium

    try:
        env = make_gymnasium(name.removeprefix(_GYMNASIUM), {})
    except (NotRegistered, gymnasium.error.Error) as error:
        raise ValueError(str(error)) from None
    try:
        entries = adapt(env).entries
    finally:
        env.close()
    id = env.spec.id
    native = f"; this package has it in C++, faster, as {id}" if id in list_tasks() else ""
    task = TaskInfo(
        id=name,
        family="gymnasium",
        description=f"a Python environment, in worker processes{native}",
        max_episode_steps=env.spec.max_episode_steps,
        reward_threshold=env.spec.reward_threshold,
        options=(),
        reset_options=(),
        can_render=bool(env.metadata.get("render_modes")),
        can_save=True,
        plugin_path="",
    )
    return _Shown(task, _core.remote_config(id, entries), f"Gymnasium {gymnasium.__version__}")


def _summary(task: TaskInfo) -> dict[str, Any]:
    return {
        "id": task.id,
        "family": task.family,
        "description": task.description,
        "max_episode_steps": task.max_episode_steps,
        "reward_threshold": task.reward_threshold,
        "can_render": task.can_render,
        "can_save": task.can_save,
    }


def _limit(task: TaskInfo, none: str, where: str = "") -> str:
    """``where`` is to be found which option sets a limit that the task itself keeps."""
    if task.max_episode_steps is not None:
        return f"{task.max_episode_steps} steps"
    for option in task.options:
        if unit := _OWN_LIMITS.get(option.name):
            own = "the task's own" if option.default is None else f"{option.default} {unit}"
            return own + where.format(option.name)
    return none


def _spec_dict(spec: _core.Spec, config: _core.Config) -> dict[str, Any]:
    return {
        "name": spec.name,
        "role": spec.role,
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "one_hot_shape": list(spec.one_hot_shape) if _is_one_hot(spec, config) else None,
        "low": [_finite(x) for x in spec.low] or None,
        "high": [_finite(x) for x in spec.high] or None,
        "categories": list(spec.categories) or None,
        "help": spec.help,
    }


def _option_dict(option: OptionInfo) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type,
        "default": _finite(option.default),
        "nullable": option.nullable,
        "choices": _finite(option.choices) or None,
        "minimum": _finite(option.minimum),
        "maximum": _finite(option.maximum),
        "help": option.help,
    }


def _finite(x: Any) -> Any:
    """The value with None for infinite numbers, which JSON does not have; zeros have no sign."""
    if isinstance(x, Mapping):
        return {key: _finite(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_finite(value) for value in x]
    if isinstance(x, float):
        return x + 0.0 if math.isfinite(x) else None
    return x


def _shape(spec: _core.Spec, config: _core.Config) -> str:
    return "x".join(map(str, spec.one_hot_shape if _is_one_hot(spec, config) else spec.shape)) or "scalar"


def _is_one_hot(spec: _core.Spec, config: _core.Config) -> bool:
    """Whether it is a one-hot vector in PoolEnv by default."""
    return bool(spec.categories) and (spec.one_hot or (spec.role == "action" and not groups_of(config)))


def _entries(config: _core.Config) -> list[_core.Spec]:
    """As PoolEnv has them by default, in the task's order, infos among them."""
    layout = _core.LayoutOptions(
        info_keys=[spec.name for spec in config.specs if spec.role == "info"],
        one_hot=not groups_of(config),
        obs_dtype=None,
        from_pixels=False,
        pixels_only=False,
        refuse_nan=False,
        strict_actions=False,
    )
    written = {spec.name: spec for spec in config.outputs(layout)}
    return [written.get(spec.name, spec) for spec in config.specs]


def _elements(spec: _core.Spec) -> list[str]:
    """What the elements of a vector or the choices of an action mean, where the entry's help lists them."""
    several = len(spec.categories) != 1  # or none at all
    count = math.prod(spec.shape) if several else spec.categories[0]
    names = re.split(r", (?![^(]*\))", spec.help)
    return names if len(names) == count > 1 else []


def _values(spec: _core.Spec, config: _core.Config) -> str:
    if spec.categories:
        one_hot = "one-hot of " if _is_one_hot(spec, config) else ""
        return one_hot + ", ".join(f"0 … {n - 1}" for n in spec.categories)
    if spec.dtype == "bool":
        return "yes, no"
    if not spec.low and not spec.high:
        return "any"
    bounds = [f"[{low + 0.0:.4g}, {high + 0.0:.4g}]" for low, high in zip(spec.low, spec.high, strict=True)]
    if len(set(bounds)) == 1:
        return bounds[0]
    shown = list(_runs(bounds))
    return " ".join(shown[:8] + ["…"] * (len(shown) > 8))


def _runs(texts: Iterable[str]) -> Iterable[str]:
    """Each text, once where it is repeated, with how often."""
    for text, run in groupby(texts):
        count = len(list(run))
        yield f"{text} x {count}" if count > 1 else text


def _shortened(text: str, length: int = 40) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _type(option: OptionInfo) -> str:
    choices = " | ".join(map(repr, option.choices))
    return choices + " or None" * option.nullable if choices else option.type_name


def _or_dash(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
