#!/usr/bin/env python3
"""Whether an installed wheel works: a rollout of each family, twice from a seed; pictures; its licences.

    python .ci/smoke.py

Needs no checkout, no compiler and no reference. A build without Atari is checked without it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from pathlib import Path

START = time.perf_counter()

import torch  # noqa: E402

import torchrl_pool  # noqa: E402
from torchrl_pool import PoolEnv, list_tasks, task_info  # noqa: E402

# One of each family, and one whose picture needs no OpenGL.
TASKS = {
    "classic": "CartPole-v1",
    "toy_text": "Taxi-v4",
    "minigrid": "MiniGrid-DoorKey-8x8-v0",
    "mpe": "mpe2/simple_spread_v3",
    "sisl": "sisl/pursuit_v5",
    "mujoco": "HalfCheetah-v5",
    "atari": "ALE/Pong-v5",
}


def families() -> set[str]:
    """Those of the wheel."""
    return {task_info(task).family for task in list_tasks()}


def check_task(task: str) -> None:
    """Raises where a rollout cannot be had, or not once more."""
    first, second = (_rollout(task) for _ in range(2))
    assert first.shape == (4, 20), first.shape
    assert (first == second).all(), f"{task}: another run from the same seed"


def check_missing_roms() -> None:
    """Raises where a game does not say what it needs: its ROM, from a package that is not installed."""
    try:
        PoolEnv("ALE/Pong-v5", 1)
    except FileNotFoundError as error:
        message = str(error)
    else:
        message = "it began without a ROM"
    assert "pip install ale-py" in message, message


def check_licences() -> None:
    """Raises where a text is missing."""
    package = importlib.metadata.distribution("torchrl_pool")
    expression = package.metadata["License-Expression"]
    folder = next(Path(str(f.locate())).parent for f in package.files or () if f.match("licenses/LICENSE"))
    texts = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    expected = {
        "LICENSE",
        "pybind11/LICENSE",
        "numpy/LICENSE.txt",
        "gymnasium/LICENSE",
        "mujoco/LICENSE",
        "box2d/LICENSE",
    }
    assert texts >= expected, expected - texts
    with_ale = "atari" in families()
    assert ("LICENSE-ALE.md" in texts) == with_ale == ("GPL-2.0-only" in expression), (texts, expression)


def _rollout(task: str) -> torch.Tensor:
    torch.manual_seed(0)
    env = PoolEnv(task, num_envs=4, num_threads=2, seed=0)
    data = env.rollout(20, break_when_any_done=False)
    env.close()
    return data


def main() -> None:
    print(f"torchrl_pool {torchrl_pool.__version__} from {Path(torchrl_pool.__file__).parent}")
    PoolEnv("CartPole-v1", 8).rollout(10)
    print(f"imports and a first rollout: {time.perf_counter() - START:.1f} s")
    for family in sorted(families()):
        start = time.perf_counter()
        task = TASKS.get(family) or list_tasks(family)[0]
        if family == "atari" and importlib.util.find_spec("ale_py") is None:
            check_missing_roms()
            print("atari: without ROMs, says so")
            continue
        check_task(task)
        print(f"{family}: {task}, {len(list_tasks(family))} tasks, {time.perf_counter() - start:.1f} s")
    env = PoolEnv("CartPole-v1", 1, seed=0)
    env.reset()
    assert env.render().shape[0] == 1
    check_licences()
    print("all is well")


if __name__ == "__main__":
    main()
