"""A TorchRL environment whose whole batch runs in one C++ executor."""

try:
    from torchrl_pool import _core as _core
except ImportError as error:  # most often: run from a checkout that is not installed
    raise ImportError(
        "torchrl_pool's compiled extension was not found. In a checkout install the package first "
        "(pip install -c constraints.txt -e .); a plain install works from any other folder."
    ) from error

from torchrl_pool.collecting import PoolCollector
from torchrl_pool.env import EnvFailure, MultiThreadedEnv, PoolEnv, SingleEnv, single_envs
from torchrl_pool.explaining import explain
from torchrl_pool.plugins import (
    OptionInfo,
    TaskInfo,
    build_plugin,
    get_include,
    list_tasks,
    load_plugin,
    task_info,
)
from torchrl_pool.transforms import FusedEnv, fuse

__version__ = "0.1.0"

__all__ = [
    "EnvFailure",
    "FusedEnv",
    "MultiThreadedEnv",
    "OptionInfo",
    "PoolCollector",
    "PoolEnv",
    "SingleEnv",
    "TaskInfo",
    "build_plugin",
    "explain",
    "fuse",
    "get_include",
    "list_tasks",
    "load_plugin",
    "single_envs",
    "task_info",
]
