"""A TorchRL environment whose whole batch runs in one C++ executor.

What it holds is imported when it is first used: the processes that run envs of Python need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

try:
    from torchrl_pool import _core as _core
except ImportError as error:  # most often: run from a checkout that is not installed
    raise ImportError(
        "torchrl_pool's compiled extension was not found. In a checkout install the package first "
        "(pip install -c constraints.txt -e .); a plain install works from any other folder."
    ) from error

if TYPE_CHECKING:
    from torchrl_pool._collecting import *  # noqa: F403
    from torchrl_pool._env import *  # noqa: F403
    from torchrl_pool._explain import explain as explain
    from torchrl_pool._goals import GoalReward as GoalReward
    from torchrl_pool._goals import goal_reward as goal_reward
    from torchrl_pool._mujoco import *  # noqa: F403
    from torchrl_pool._plugins import *  # noqa: F403
    from torchrl_pool._texts import MISSION_WORDS as MISSION_WORDS
    from torchrl_pool._texts import decode_text as decode_text
    from torchrl_pool._transforms import *  # noqa: F403

__version__ = "0.1.0"

_MODULES = {
    "_collecting": ["PoolCollector"],
    "_env": ["EnvFailure", "MultiThreadedEnv", "PoolEnv", "SingleEnv", "single_envs"],
    "_explain": ["explain"],
    "_goals": ["GoalReward", "goal_reward"],
    "_mujoco": ["MujocoPool"],
    "_plugins": [
        "OptionInfo",
        "TaskInfo",
        "build_plugin",
        "get_include",
        "list_tasks",
        "load_plugin",
        "task_info",
        "versions",
    ],
    "_texts": ["MISSION_WORDS", "decode_text"],
    "_transforms": ["FusedEnv", "fuse"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
