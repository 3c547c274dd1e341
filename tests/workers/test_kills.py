"""Workers killed at random: nothing is lost that is not flagged, and nothing is left behind."""

import os
import random
import signal
import time
from functools import partial

import pytest
import torch
from launched import open_files
from long_form import LONG
from python_envs import Scripted

from torchrl_pool import PoolEnv

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
