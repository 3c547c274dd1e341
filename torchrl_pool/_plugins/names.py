"""What other libraries call tasks: a pair of a domain and a task in dm_control, another id in EnvPool."""

from __future__ import annotations

import re
from typing import Any

from torchrl_pool._plugins.registry import is_task, list_tasks

_SUITE = "dm_control"


def task_ids(task: Any, *, may_be_list: bool = False) -> Any:
    """What a caller named, with ids in the place of dm_control's pairs, such as ``("cheetah", "run")``.

    Examples:
        >>> task_ids(("cheetah", "run"))
        'dm_control/cheetah-run-v0'
        >>> task_ids(["CartPole-v1", ("cheetah", "run")])
        ['CartPole-v1', 'dm_control/cheetah-run-v0']

    Args:
        task: an id, a pair, or a sequence of both.
        may_be_list: whether a list of two strings may be a pair too: files of settings know no tuples.
    """
    if isinstance(task, (list, tuple)) and len(task) == 2 and all(_is_word(part) for part in task):
        id = f"{_SUITE}/{task[0]}-{task[1]}-v0"
        if isinstance(task, tuple) or may_be_list:
            if is_task(id) or _names_one_of(task):
                return id  # where it is unknown, too: its neighbours are what was meant
        elif is_task(id):
            raise ValueError(f"task: a pair is a tuple, {(*task,)!r}; a list has one task for each env")
    if isinstance(task, (list, tuple)):
        return [task_ids(one, may_be_list=True) for one in task]
    return task


def _names_one_of(pair: Any) -> bool:
    """Whether a domain or a task of the suite is called like one half of a pair."""
    suite = [suite_names(task) for task in list_tasks() if task.startswith(f"{_SUITE}/")]
    return any(pair[0] == domain or pair[1] == name for domain, name in suite)


def _is_word(part: Any) -> bool:
    return isinstance(part, str) and part.isidentifier()


def suite_names(task: str) -> tuple[str, str]:
    """The domain and the task that dm_control has for one of its tasks.

    Examples:
        >>> suite_names("dm_control/cheetah-run-v0")
        ('cheetah', 'run')
    """
    domain, name = task.removeprefix(f"{_SUITE}/").removesuffix("-v0").split("-")
    return domain, name


def gymnasium_id(task: str) -> str | None:
    """The id that ``torchrl_pool.gymnasium`` registers for a task.

    ``None`` where a task has its id from PettingZoo: Gymnasium's envs have one agent.

    Examples:
        >>> gymnasium_id("ALE/Pong-v5")
        'torchrl_pool/Pong-v5'
        >>> gymnasium_id("mpe2/simple_spread_v3")
    """
    if re.search(r"_v\d+$", task):
        return None
    return f"torchrl_pool/{task.split('/')[-1]}"


def envpool_id(task: str) -> str:
    """What EnvPool calls a task.

    Examples:
        >>> envpool_id("dm_control/humanoid_CMU-run-v0")
        'HumanoidCMURun-v1'
        >>> envpool_id("ALE/Pong-v5")
        'Pong-v5'
    """
    if not task.startswith(f"{_SUITE}/"):
        return task.removeprefix("ALE/")
    words = "_".join(suite_names(task)).split("_")
    return "".join(word[0].upper() + word[1:] for word in words) + "-v1"


def id_of_envpools(name: str) -> str:
    """The task that EnvPool calls so where it is one of dm_control's; other names stay as they are."""
    if is_task(name):
        return name
    families = [task for task in list_tasks() if task.startswith(f"{_SUITE}/")]
    return next((task for task in families if envpool_id(task) == name), name)
