"""Tasks and where they come from: plugins loaded, compiled and begun from a template, options checked.

Nothing in this folder knows of torch. An installed package has its own plugins' libraries here, too.
"""

from torchrl_pool._plugins.building import build_plugin
from torchrl_pool._plugins.loading import get_include, load_plugin
from torchrl_pool._plugins.options import OptionInfo
from torchrl_pool._plugins.registry import TaskInfo, list_tasks, task_info, versions

__all__ = [
    "OptionInfo",
    "TaskInfo",
    "build_plugin",
    "get_include",
    "list_tasks",
    "load_plugin",
    "task_info",
    "versions",
]
