"""Programs to run and to copy from: one file for each algorithm, over a few that they share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tensordict import TensorDictBase
    from torchrl.envs import EnvBase

__all__ = ["load_policy"]

if sys.argv[:1] == ["-m"] and sys.stderr.isatty():  # Python is looking for one of the programs, to run it
    print("Importing torch and TorchRL …", file=sys.stderr)


def load_policy(
    folder: str | Path, num_envs: int = 1, *, render: bool = False
) -> tuple[Callable[[TensorDictBase], TensorDictBase], EnvBase]:
    """Loads what a training program has learned, with an env to run it in.

    The networks are rebuilt, and get the weights of the checkpoint; a population's are those of its best
    member. The env is the training's, with new seeds, its observations normalized by the statistics of the
    checkpoint, which stay as they are, and rewards as the task gives them.

    Args:
        folder: a training's, such as ``"runs/ppo-CartPole-v1-0"``, or its ``checkpoint.pt``.
        num_envs: envs in the pool.
        render: whether ``render`` will be called; only ``gymnasium:`` envs need to know.

    Returns:
        A TensorDictModule, which acts deterministically unless TorchRL's exploration type says otherwise,
        and the env, of batch size ``[num_envs]``, whose entry ``"episode_reward"`` is the return until now.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: that is no checkpoint, or of a release that did not name its program.
        ImportError: a package of ``torchrl_pool[examples]`` is missing.

    Examples:
        >>> from torchrl_pool.examples import load_policy
        >>> policy, env = load_policy("runs/ppo-CartPole-v1-0")  # doctest: +SKIP
        >>> env.rollout(1000, policy)["next", "episode_reward"].max()  # doctest: +SKIP
        tensor(500.)
    """
    run: Any = importlib.import_module("torchrl_pool.examples.run")  # here: it needs the extra
    loaded: tuple[Any, EnvBase] = run.load_policy(folder, num_envs, render=render)
    return loaded


def say_what_is_missing(error: ImportError, extra: str = "examples") -> NoReturn:
    """Names a package that an example needs: as one sentence where it is run as a program.

    Raises:
        ImportError: elsewhere.
    """
    package = str(error.name).partition(".")[0]
    text = f"the examples need {package}, which is not installed: pip install torchrl_pool[{extra}]"
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name.startswith(f"{__name__}."):
        sys.exit(text)
    raise ImportError(text, name=error.name) from None
