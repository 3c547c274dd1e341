"""Workers killed at any moment: nothing is lost that is not flagged, and nothing is left behind."""

import os
import random
import signal
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG
from gymnasium import spaces
from launched import killed, open_files
from python_envs import Scripted

from torchrl_pool import EnvFailure, PoolEnv

KILLS = 1000 if LONG else 25
NUM_ENVS, NUM_WORKERS = 8, 4


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@pytest.mark.timeout(1800)
def test_kills():
    """Each env's steps are counted without a gap, but where its row says that it was lost."""
    pool = PoolEnv(partial(Scripted, {50: "terminate"}), NUM_ENVS, num_workers=NUM_WORKERS, respawn=True)
    rng = random.Random(0)
    root = pool.reset()
    action = pool.action_spec.rand()
    count = torch.zeros(NUM_ENVS)
    before = kills = lost_rows = 0
    while kills < KILLS:
        workers = pool._source.workers._workers
        if rng.random() < 0.2:
            os.kill(workers[rng.randrange(NUM_WORKERS)].pid, signal.SIGKILL)
            kills += 1
            time.sleep(rng.random() * 0.002)
        root["action"] = action
        data, root = pool.step_and_maybe_reset(root)
        step, lost = data["next"], data["next", "respawned"].flatten()
        seen = (step["observation"][:, 0] * 100).round()
        assert torch.equal(seen, torch.where(lost, 0, count + 1))
        ends = lost | (seen == 50)
        assert torch.equal(step["done"].flatten(), ends)
        assert torch.equal(step["truncated"].flatten(), lost)
        count = torch.where(ends, 0, seen)
        assert torch.equal((root["observation"][:, 0] * 100).round(), count)
        lost_rows += int(lost.sum())
        if kills == 5 and not before:
            before = open_files()
            memory = resident_kib()
    assert kills <= lost_rows <= kills * NUM_ENVS
    assert open_files() <= before
    assert resident_kib() - memory < 20_000
    pool.close()


class Mortal(gymnasium.Env):
    """Counts its steps; kills its process at the event that is the name of a file, once.

    Args:
        folder: where that file is.
    """

    observation_space = spaces.Box(-1e9, 1e9, (1,), np.float64)
    action_space = spaces.Discrete(2)
    render_mode = "rgb_array"
    EVENTS = ("made", "reset", "stepped", "soon", "info", "saved", "loaded", "called", "got", "drawn")

    def __init__(self, folder):
        self.folder, self.steps = folder, 0
        self.reach("made")

    def reach(self, event):
        try:
            os.remove(f"{self.folder}/{event}")
        except FileNotFoundError:
            return
        if event != "soon":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # and so in the midst of handing over what it returns
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 5e-4))

    def infos(self):
        self.reach("info")
        return {"steps": self.steps}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.reach("reset")
        return np.zeros(1), self.infos()

    def step(self, action):
        self.steps += 1
        self.reach("stepped")
        self.reach("soon")
        return np.full(1, float(self.steps)), 0.0, self.steps == 4, False, self.infos()

    def get_state(self):
        self.reach("saved")
        return self.steps

    def set_state(self, state):
        self.reach("loaded")
        self.steps = state

    def count(self):
        self.reach("called")
        return self.steps

    @property
    def height(self):
        self.reach("got")
        return 2

    def render(self):
        self.reach("drawn")
        return np.zeros((self.height, 2, 3), np.uint8)


def live(pool):
    """Does with its envs all that a pool does."""
    root = pool.reset()
    for step in (1, 2, 3, 4, 1):
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        assert data["next", "observation"].flatten().tolist() == [step] * NUM_ENVS
    states = pool.get_state()
    pool.async_step_and_maybe_reset_send(pool.rand_action(root))
    for _ in range(2):
        results, _ = pool.async_step_and_maybe_reset_recv(NUM_ENVS // 2, max_get=NUM_ENVS // 2)
        assert results["next", "observation"].flatten().tolist() == [2] * (NUM_ENVS // 2)
    pool.set_state(states)
    assert pool.call("count") == [1] * NUM_ENVS
    assert pool.get_attr("height") == [2] * NUM_ENVS
    assert pool.render().shape == (NUM_ENVS, 2, 2, 3)


def receive_the_rest(pool):
    while True:
        try:
            pool.async_step_and_maybe_reset_recv(1)
        except EnvFailure:
            continue
        except RuntimeError:  # there is no more
            return


@pytest.mark.timeout(1800)
def test_kills_at_each_event(tmp_path):
    """The call that it happens in fails or, where that is not lost on it, does not; then all is as it was."""
    rng, died_in = random.Random(0), set()
    with PoolEnv(partial(Mortal, tmp_path), NUM_ENVS, num_workers=NUM_WORKERS, info_keys=("steps",)) as pool:
        live(pool)
        before = open_files()
        for kill in range(KILLS):
            event = Mortal.EVENTS[kill % len(Mortal.EVENTS)]
            if event == "made":  # which a process is that comes anew
                killed(rng.choice(pool._source.workers._workers).pid)
            (tmp_path / event).touch()
            try:
                live(pool)
            except RuntimeError as error:
                if type(error) not in (RuntimeError, EnvFailure):
                    raise
                died_in.add(event)
            assert not (tmp_path / event).exists()
            receive_the_rest(pool)
            live(pool)
        assert open_files() <= before
    assert died_in >= {"reset", "stepped", "info", "saved", "loaded", "called", "got", "drawn"}
