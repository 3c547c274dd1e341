"""The simulator's own library alone, on as many threads: ``mj_step`` in a loop, or ALE's ``act``.

Less than any env does: no observations, no rewards, no pictures. ``python simulator.py TASK NUM_ENVS
NUM_THREADS`` prints "ready", or why it is not; reads lines ``CALLS`` and answers each when all envs'
simulators have made so many steps. It is what ``bench --against simulator`` runs.
"""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from pathlib import Path

from torchrl_pool._bench.gymnasium_env import Unavailable, atari_game, check_gymnasium_has, gymnasium_env
from torchrl_pool._bench.peer_process import PeerProcess
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._plugins.registry import task_info

HERE = Path(__file__).parent


def main() -> None:
    task, num_envs, num_threads = sys.argv[1], *map(int, sys.argv[2:])
    try:
        processes = _processes(task, num_envs, min(num_envs, num_threads))
    except Unavailable as error:
        print(error)
        return
    for process in processes:
        process.wait()
    # One MuJoCo process has all the envs; an emulator process has a share of them, as one long game.
    steps_per_call = num_envs / len(processes) if task_info(task).family == "atari" else 1
    print("ready", flush=True)
    for line in sys.stdin:
        for process in processes:
            process.start(math.ceil(int(line) * steps_per_call))
        for process in processes:
            process.wait()
        print("done", flush=True)


def _processes(task: str, num_envs: int, num_threads: int) -> list[PeerProcess]:
    """Those that step the simulators of all envs.

    Raises:
        Unavailable: the task has no simulator apart from its own code.
    """
    check_gymnasium_has(task)
    family = task_info(task).family
    if family == "atari":
        return _ale(task, num_threads)
    if family == "mujoco":
        return [_mujoco(task, num_envs, num_threads)]
    raise Unavailable(f"{task} has no simulator but its own code, which is what 'raw' steps")


def _ale(task: str, num_processes: int) -> list[PeerProcess]:
    command = [sys.executable, str(HERE / "bare_ale.py"), atari_game(task)]
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
        HERE / "bare_mujoco.cc",
        flags=(
            f"-I{mujoco / 'include'}",
            str(next(mujoco.glob("libmujoco.*"))),
            f"-Wl,-rpath,{mujoco}",
            "-pthread",
        ),
    )
    command = [sys.executable, str(HERE / "bare_mujoco.py"), str(library), robot.fullpath]
    return PeerProcess([*command, *map(str, numbers)])


if __name__ == "__main__":
    main()
