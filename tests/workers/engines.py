"""An env that starts programs, as ViZDoom does: stubborn ones, which hide from what has started them.

Like that one it shares memory with them, of which its own close removes what it has made itself.
"""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np

#: Ignores requests to end, shares memory, writes its id to a file, starts another one if it is told to.
ENGINE = """
import mmap, os, signal, sys, time

ids, both, number = sys.argv[1:]
for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
with open(f"/dev/shm/engine-{os.getpid()}-of-{number}", "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
with open(ids, "a") as file:
    print(os.getpid(), file=file)
if both:
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-IS", sys.argv[0], ids, "", number])
time.sleep(100)
"""
#: Writes a result, creates a file that is to be shared, and ends before it maps that.
KILLED = 'echo > "$0"; : > "$1"; kill -9 $$'


class Engines(gymnasium.Env):
    """Writes the ids of its processes to ``pids`` in a folder, and of a close to ``closed``."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, folder):
        self.folder = Path(folder)
        script, ids = self.folder / "engine", self.folder / "pids"
        script.write_text(ENGINE)
        with open(ids, "a") as file:
            print(os.getpid(), file=file)
        number = number_of(folder)
        self.shared = Path("/dev/shm", f"env-{os.getpid()}-of-{number}")
        self.memory = [shared_memory(self.shared), shared_memory(kept(folder))]
        subprocess.run(
            ["sh", "-c", KILLED, result(folder), f"{self.shared.parent}/killed-of-{number}"], check=False
        )
        command = [sys.executable, "-IS", script, ids, "both", number]
        self.engine = subprocess.Popen(command)
        self.other = subprocess.Popen(command, start_new_session=True)
        subprocess.run(["sh", "-c", 'setsid "$@" &', *command[:1], *command], check=True)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self):
        self.shared.unlink()
        (self.folder / "closed").touch()


def shared_memory(path):
    with path.open("w+b") as file:
        file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)


def number_of(folder):
    return str(Path(folder).stat().st_ino)


def shared_files(folder):
    """What its processes have left in shared memory."""
    return [name for name in os.listdir("/dev/shm") if name.endswith(f"-of-{number_of(folder)}")]


def kept(folder):
    """What the env itself shares, and leaves as it closes."""
    return Path("/dev/shm", f"{number_of(folder)}-kept")


def result(folder):
    """What a program of its writes."""
    return Path("/dev/shm", f"{number_of(folder)}-result")


def pids(folder, count):
    """Of all processes of so many envs, once they are there."""
    path = Path(folder, "pids")
    found = path.read_text().split() if path.exists() else []
    return [int(pid) for pid in found] if len(found) == 7 * count else []
