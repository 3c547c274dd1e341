"""The simulator's own library alone, on as many threads: ``mj_step`` in a loop, or ALE's ``act``.

Less than any env does: no observations, no rewards, no pictures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from torchrl_pool._bench.gymnasium_env import Unavailable, check_gymnasium_has, gymnasium_env
from torchrl_pool._bench.peer_process import PEERS, PeerProcess
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._plugins.registry import task_info


def simulator_processes(
    task: str, num_envs: int, num_threads: int
) -> tuple[Callable[[int], None], Callable[[], None]]:
    """A function that steps the simulators of all envs so many times, and one that ends them.

    Raises:
        Unavailable: the task has no simulator apart from its own code.
    """
    check_gymnasium_has(task)
    family = task_info(task).family
    if family == "atari":
        peers = _ale(task, min(num_envs, num_threads))
    elif family == "mujoco":
        peers = [_mujoco(task, num_envs, min(num_envs, num_threads))]
    else:
        raise Unavailable(f"{task} has no simulator but its own code, which is what 'raw' steps")
    for peer in peers:
        peer.wait()
    # One MuJoCo process has all the envs; an emulator process has a share of them, as one long game.
    steps_per_call = num_envs / len(peers) if family == "atari" else 1

    def run(calls: int) -> None:
        for peer in peers:
            peer.start(math.ceil(calls * steps_per_call))
        for peer in peers:
            peer.wait()

    def close() -> None:
        for peer in peers:
            peer.close()

    return run, close


def atari_game(task: str) -> str:
    """The name of an Atari task's ROM."""
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    spec = gymnasium.spec(task)
    return str(spec.kwargs["game"])


def _ale(task: str, num_processes: int) -> list[PeerProcess]:
    command = [sys.executable, str(PEERS / "bare_ale.py"), atari_game(task)]
    return [PeerProcess(command) for _ in range(num_processes)]


def _mujoco(task: str, num_envs: int, num_threads: int) -> PeerProcess:
    env = gymnasium_env(task)
    robot = env.unwrapped
    if hasattr(robot, "_healthy_z_range"):
        lowest, highest = robot._healthy_z_range
    elif task.startswith("Inverted"):
        raise Unavailable(f"the loop around mj_step does not know when {task} ends its episodes")
    else:
        lowest, highest = -math.inf, math.inf
    is_free = robot.model.jnt_type[0] == 0  # mjJNT_FREE: x, y, z come first, else x, z
    numbers = [
        robot.frame_skip,
        env.spec.max_episode_steps,
        robot._reset_noise_scale if hasattr(robot, "_reset_noise_scale") else 0.01,
        2 if is_free else 1,
        lowest,
        highest,
        num_envs,
        num_threads,
    ]
    env.close()
    mujoco = Path(find_spec("mujoco").submodule_search_locations[0])  # type: ignore[union-attr, index]
    library = compile_plugin(
        PEERS / "bare_mujoco.cc",
        flags=(
            f"-I{mujoco / 'include'}",
            str(next(mujoco.glob("libmujoco.*"))),
            f"-Wl,-rpath,{mujoco}",
            "-pthread",
        ),
    )
    command = [sys.executable, str(PEERS / "bare_mujoco.py"), str(library), robot.fullpath]
    return PeerProcess([*command, *map(str, numbers)])
