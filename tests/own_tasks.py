"""The tasks that the package itself has, whatever plugins other tests have loaded by then."""

import os
from pathlib import Path

import torchrl_pool
from torchrl_pool import list_tasks, task_info

_PACKAGE = Path(torchrl_pool._core.__file__).parent
OWN_TASKS = [task for task in list_tasks() if _PACKAGE in Path(task_info(task).plugin_path).parents]


def representatives(tasks):
    """One task of each kind where many differ in numbers alone, as MiniGrid's do; all in the long form."""
    if os.environ.get("TORCHRL_POOL_LONG_TESTS"):
        return list(tasks)
    kinds = {}
    for task in tasks:
        info = task_info(task)
        kind = (task.split("-")[0], info.description) if info.family == "minigrid" else task
        kinds.setdefault(kind, task)
    return list(kinds.values())
