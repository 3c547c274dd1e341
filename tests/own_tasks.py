"""The tasks that the package itself has, whatever plugins other tests have loaded by then."""

from collections.abc import Hashable
from pathlib import Path

import torchrl_pool
from torchrl_pool import list_tasks, task_info

_PACKAGE = Path(torchrl_pool._core.__file__).parent
OWN_TASKS = [task for task in list_tasks() if _PACKAGE in Path(task_info(task).plugin_path).parents]


def _kind_of(task: str) -> Hashable:
    """What a task shares with those that differ from it in numbers alone."""
    info = task_info(task)
    match info.family:
        case "minigrid":  # sizes, and how many objects
            return task.split("-")[0], info.description
        case "mujoco":  # revisions
            return task.rpartition("-v")[0]
        case "dm_control":  # goals of the same body
            return task.split("-")[0]
        case "robotics":  # rewards and mazes
            return task.replace("Dense", "").split("_")[0]
        case "atari":  # one program with many cartridges
            return "a game"
        case _:
            return task


ONE_OF_EACH_KIND = list({_kind_of(task): task for task in OWN_TASKS}.values())
