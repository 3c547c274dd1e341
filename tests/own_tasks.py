"""The tasks that the package itself has, whatever plugins other tests have loaded by then."""

from pathlib import Path

import torchrl_pool
from torchrl_pool import list_tasks, task_info

_PACKAGE = Path(torchrl_pool._core.__file__).parent
OWN_TASKS = [task for task in list_tasks() if _PACKAGE in Path(task_info(task).plugin_path).parents]
