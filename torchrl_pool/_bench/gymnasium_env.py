"""The Gymnasium env that a task reproduces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from torchrl_pool._plugins.registry import task_info

# Atari tasks are their plain env under the wrappers that everybody puts around it.
_STACK_SIZE = 4


class Unavailable(Exception):
    """Why something cannot be measured here, and what would change that."""


def require(package: str, module: str | None = None) -> None:
    """Raises Unavailable where a package is not installed."""
    if find_spec(module or package) is None:
        raise Unavailable(f"{package} is not installed: pip install 'torchrl_pool[bench]'")


def check_gymnasium_has(task: str) -> None:
    """Raises Unavailable where Gymnasium is not installed, or has no such env."""
    require("gymnasium")
    import gymnasium

    if task.startswith("ALE/"):
        require("ale-py", "ale_py")
        require("opencv-python-headless", "cv2")
    elif task not in gymnasium.registry:
        raise Unavailable(f"Gymnasium {gymnasium.__version__} has no {task}")
    elif task_info(task).family == "mujoco":
        require("imageio")  # its renderer's, which every robot imports


def gymnasium_env(task: str) -> Any:
    """A Gymnasium env with the task's observations, rewards and episodes."""
    import gymnasium

    family = task_info(task).family
    if family == "mujoco":
        with _models_loaded_quietly():
            return gymnasium.make(task, disable_env_checker=True)
    if family != "atari":
        return gymnasium.make(task, disable_env_checker=True)
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(task, frameskip=1, disable_env_checker=True)
    return FrameStackObservation(AtariPreprocessing(env), _STACK_SIZE)


def atari_game(task: str) -> str:
    """The name of an Atari task's ROM."""
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    spec = gymnasium.spec(task)
    return str(spec.kwargs["game"])


@contextmanager
def _models_loaded_quietly() -> Iterator[None]:
    """Without the warnings that MuJoCo prints, and writes to a file, for each of Gymnasium's own models."""
    import mujoco

    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(handler)
