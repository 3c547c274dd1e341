"""Envs of Python: steps per second in this process and in workers, beside what one would take instead.

Random actions, episodes begun again. Contenders take turns. ``--task`` names ids as in ``gymnasium.make``,
with the module that registers each, such as ``nle:NetHackScore-v0``; ``timed_env:Timed60-v0`` takes 60 µs for
a step. ``--against`` says which contenders; docs show ``PoolEnv Sync Async Subproc``.
Stable-Baselines3 and PufferLib run in Pythons that have them: --stable-baselines3 PYTHON, --pufferlib PYTHON.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
from contenders import PeerProcess
from throughput import alternate, machine_line, one_torch_thread, save
from torchrl.envs import EnvBase, GymEnv, ParallelEnv, SerialEnv

from torchrl_pool import PoolEnv
from torchrl_pool._tables import print_table
from torchrl_pool.gymnasium import PoolVectorEnv

ACTIONS = 16  # batches of them, in turn
ALONE = "one env alone"
OURS = "PoolVectorEnv"


class TorchRL:
    """``step_and_maybe_reset``, as collectors call it."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root = env.reset()
        self.actions = [env.action_spec.rand() for _ in range(ACTIONS)]

    def __call__(self, calls: int) -> None:
        for i in range(calls):
            self.root["action"] = self.actions[i % ACTIONS]
            _, self.root = self.env.step_and_maybe_reset(self.root)

    def close(self) -> None:
        self.env.close()


class Gymnasium:
    def __init__(self, envs: Any) -> None:
        self.envs = envs
        self.envs.reset(seed=0)
        self.actions = [self.envs.action_space.sample() for _ in range(ACTIONS)]

    def __call__(self, calls: int) -> None:
        for i in range(calls):
            self.envs.step(self.actions[i % ACTIONS])

    def close(self) -> None:
        self.envs.close()


class Alone:
    """One env in this process."""

    def __init__(self, task: str) -> None:
        self.env = gymnasium.make(task)
        self.env.reset(seed=0)

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            _, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            if terminated or truncated:
                self.env.reset()

    def close(self) -> None:
        self.env.close()


# What runs in interpreters of its own: `envs` of n envs, and as many of their steps as a line says.

STABLE_BASELINES3 = """
import os, signal, sys, numpy as np, gymnasium as gym
from stable_baselines3.common.vec_env import SubprocVecEnv
task, n = sys.argv[1], int(sys.argv[2])
envs = SubprocVecEnv([lambda: gym.make(task)] * n, start_method="fork")
envs.reset()
spinning = []
"""

# ``overwork`` lets workers be as many as processors that share cores. An episode's end costs PufferLib one
# more step, which counts. It leaves a link in the folder that it is imported in.
PUFFERLIB = """
import os, signal, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    import numpy as np, gymnasium as gym, pufferlib.emulation
    from pufferlib.vector import Multiprocessing, Serial, make
    os.chdir("/")

task, n, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def make_env(buf=None, seed=0):
    return pufferlib.emulation.GymnasiumPufferEnv(env=gym.make(task), buf=buf)

kind = dict(backend=Multiprocessing, num_workers=workers, overwork=True) if workers else dict(backend=Serial)
envs = make(make_env, num_envs=n, **kind)
envs.reset(seed=0)
spinning = [worker.pid for worker in envs.processes] if workers else []
"""

# The workers of both outlive a parent that is ended by a signal; PufferLib's spin when others have a turn.
SERVE = """
def tell_spinning(signal):
    for pid in spinning:
        os.kill(pid, signal)

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
tell_spinning(signal.SIGSTOP)
try:
    space = gym.make(task).action_space
    actions = [np.stack([space.sample() for _ in range(n)]) for _ in range(16)]
    for line in sys.stdin:
        tell_spinning(signal.SIGCONT)
        for i in range(int(line)):
            envs.step(actions[i % 16])
        tell_spinning(signal.SIGSTOP)
        print(flush=True)
finally:
    tell_spinning(signal.SIGCONT)
    envs.close()
"""


class Elsewhere:
    def __init__(self, python: str, program: str, *words: object) -> None:
        self.peer = PeerProcess([python, "-Wignore", "-c", program + SERVE, *map(str, words)])

    def __call__(self, calls: int) -> None:
        self.peer.request(calls)

    def close(self) -> None:
        self.peer.close()


def contenders(
    id: str, num_envs: int, workers: int, sb3_python: str | None, puffer_python: str | None
) -> dict[str, Callable[[], Any]]:
    make = partial(GymEnv, id)
    task = f"gymnasium:{id}"
    makers = [partial(gymnasium.make, id)] * num_envs
    few = partial(SerialEnv, num_envs // workers, make)
    found: dict[str, Callable[[], Any]] = {
        # Those that fork come first: libraries such as NetHack's do not live through it.
        "AsyncVectorEnv": lambda: Gymnasium(gymnasium.vector.AsyncVectorEnv(makers, context="fork")),
        f"ParallelEnv({workers}, SerialEnv)": lambda: TorchRL(
            ParallelEnv(workers, few, mp_start_method="fork")
        ),
        OURS: lambda: Gymnasium(PoolVectorEnv(task, num_envs)),
        f"{OURS}, {workers} workers": lambda: Gymnasium(PoolVectorEnv(task, num_envs, num_workers=workers)),
        "PoolEnv": lambda: TorchRL(PoolEnv(task, num_envs)),
        f"PoolEnv, {workers} workers": lambda: TorchRL(PoolEnv(task, num_envs, num_workers=workers)),
        f"GymEnv in PoolEnv, {workers} workers": lambda: TorchRL(
            PoolEnv(make, num_envs, num_workers=workers)
        ),
        "SyncVectorEnv": lambda: Gymnasium(gymnasium.vector.SyncVectorEnv(makers)),
        ALONE: lambda: Alone(id),
        "SerialEnv": lambda: TorchRL(SerialEnv(num_envs, make)),
    }
    if sb3_python:
        found["SubprocVecEnv"] = lambda: Elsewhere(sb3_python, STABLE_BASELINES3, id, num_envs)
    if puffer_python:
        found[f"PufferLib, {workers} workers"] = lambda: Elsewhere(
            puffer_python, PUFFERLIB, id, num_envs, workers
        )
        found["PufferLib, none"] = lambda: Elsewhere(puffer_python, PUFFERLIB, id, num_envs, 0)
    return found


@contextmanager
def busy_programs(number: int) -> Iterator[None]:
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", default=["CartPole-v1"])
    parser.add_argument("--against", nargs="+", metavar="NAME", help="how names begin; default: all")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-seconds", type=float, default=0.1)
    parser.add_argument("--busy", type=int, default=0, help="programs beside it that never sleep")
    parser.add_argument("--stable-baselines3", metavar="PYTHON")
    parser.add_argument("--pufferlib", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    for task, n in itertools.product(parsed.task, parsed.num_envs):
        makers = contenders(task, n, parsed.workers, parsed.stable_baselines3, parsed.pufferlib)
        chosen = (OURS, *(parsed.against or [""]))
        running = {name: make() for name, make in makers.items() if name.startswith(chosen)}
        with busy_programs(parsed.busy):
            times = alternate(running, round_seconds=parsed.round_seconds, rounds=parsed.rounds)
        for contender in running.values():
            contender.close()
        ours = n / times[OURS].median
        for name, seconds in times.items():
            rate = (1 if name == ALONE else n) / seconds.median
            rows.append([task, str(n), name, f"{rate:,.0f}", f"{ours / rate:.2f}", f"{seconds.spread:.0%}"])
        results.append({"task": task, "num_envs": n, "seconds_per_step": times})
    print(f"{machine_line()}\n")
    print_table(["task", "envs", "", "steps/s", f"{OURS} is … times as fast", "spread"], rows, numbers=3)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
