"""An env that starts programs, as ViZDoom does: stubborn ones, which ignore requests to end."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np

#: Ignores requests to end, writes its id to a file, starts another one if it is told to.
ENGINE = """
import os, signal, sys, time

ids, both = sys.argv[1:]
for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
with open(ids, "a") as file:
    print(os.getpid(), file=file)
if both:
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-IS", sys.argv[0], ids, ""])
time.sleep(100)
"""


class Still(gymnasium.Env):
    """Does nothing."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def pid(self):
        return os.getpid()


class Engines(Still):
    """Writes the ids of its processes to ``pids`` in a folder, and of a close to ``closed``."""

    def __init__(self, folder):
        self.folder = Path(folder)
        script, ids = self.folder / "engine", self.folder / "pids"
        script.write_text(ENGINE)
        with open(ids, "a") as file:
            print(os.getpid(), file=file)
        command = [sys.executable, "-IS", script, ids, "both"]
        self.engine = subprocess.Popen(command)
        subprocess.run(["sh", "-c", '"$@" &', *command[:1], *command], check=True)

    def close(self):
        (self.folder / "closed").touch()


class Chained(Still):
    """Starts a program that goes on in ever new processes, each of which has lost its parent."""

    PROGRAM = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.003)
"""

    def __init__(self, folder):
        subprocess.run([sys.executable, "-IS", "-c", self.PROGRAM, folder], check=True)


class Background(Still):
    """Starts something in the background in each step, which ends by itself."""

    def step(self, action):
        os.system("true &")
        return super().step(action)

    def children(self):
        """How many this process has, ended or not."""
        me, found = os.getpid(), 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == me
        return found


class Sharing(Still):
    """Maps files, as envs do that read levels, and engines that share memory."""

    def share(self, path):
        self.memory = np.load(path, mmap_mode="r")
        return self.memory.sum()

    def create(self, path):
        self.own = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(4096,))


class Forking(Still):
    """Has a child that leaves the call that it was forked in, in one way or another."""

    def __init__(self):
        self.how, self.steps = "", 0

    def _fork(self):
        if not self.how:
            return
        if child := os.fork():
            self.ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        elif self.how == "exit":
            sys.exit(3)
        elif self.how == "raise":
            raise ValueError("in the child")

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        self._fork()
        return super().reset()

    def step(self, action):
        self.steps += 1
        self._fork()
        return np.zeros(1, np.float32), float(self.steps), False, False, {"steps": self.steps}

    def think(self):
        self._fork()
        return "thought"


def started_with(argument):
    """Ids of processes that have this among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument in (process / "cmdline").read_text().split("\0"):
                found.append(int(process.name))
    return found


def pids(folder, count):
    """Of all processes of so many envs, once they are there."""
    path = Path(folder, "pids")
    found = path.read_text().split() if path.exists() else []
    return [int(pid) for pid in found] if len(found) == 5 * count else []
