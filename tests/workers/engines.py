"""An env that starts programs, as ViZDoom does: stubborn ones, which hide from what has started them.

Like that one it shares memory with them, of which its own close removes what it has made itself.
"""

import mmap
import os
import subprocess
from pathlib import Path

import gymnasium
import numpy as np

#: Ignores requests to end, writes its id to a file, and starts another such program if it is told to.
ENGINE = """
trap '' TERM HUP INT QUIT
exec 9> "/dev/shm/engine-$$-of-$3"
echo $$ >> "$1"
if [ "$2" ]; then sh "$0" "$1" "" "$3"; fi
exec sleep 100
"""


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
        self.shared = Path("/dev/shm", f"env-{os.getpid()}-of-{self.folder_number}")
        with self.shared.open("w+b") as file:
            file.truncate(4096)
            self.memory = mmap.mmap(file.fileno(), 4096)
        command = ["sh", script, ids, "both", self.folder_number]
        self.engine = subprocess.Popen(command)
        self.other = subprocess.Popen(command, start_new_session=True)
        subprocess.run(["sh", "-c", 'setsid "$@" &', *command[:1], *command], check=True)

    @property
    def folder_number(self):
        return str(self.folder.stat().st_ino)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self):
        self.shared.unlink()
        (self.folder / "closed").touch()


def shared_files(folder):
    """What its processes have left in shared memory."""
    return [name for name in os.listdir("/dev/shm") if name.endswith(f"-of-{Path(folder).stat().st_ino}")]


def pids(folder, count):
    """Of all processes of so many envs, once they are there."""
    path = Path(folder, "pids")
    found = path.read_text().split() if path.exists() else []
    return [int(pid) for pid in found] if len(found) == 7 * count else []
