"""ViZDoom's games, which are processes of their own."""

import os
from functools import partial
from pathlib import Path

import pytest
from launched import eventually, killed, parent_of

from torchrl_pool import EnvFailure, PoolEnv

pytest.importorskip("vizdoom")


def make(folder):
    import gymnasium

    own = folder / str(os.getpid())  # games write there
    own.mkdir(exist_ok=True)
    os.chdir(own)
    task = "vizdoom.gymnasium_wrapper:VizdoomBasic-v1"
    return gymnasium.make(task, screen_resolution="RES_160X120")


@pytest.fixture
def pool(tmp_path):
    pool = PoolEnv(partial(make, tmp_path), 2, num_workers=2, seed=0)
    yield pool
    pool.close()


def games(folder):
    """Ids of the games that run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            if words[0].endswith("vizdoom") and (process / "cwd").readlink().parent == folder:
                found.append(int(process.name))
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def _no_files_are_left():
    """Killed ones leave their shared memory, see the recipe."""
    before = set(os.listdir("/dev/shm"))
    yield
    for name in set(os.listdir("/dev/shm")) - before:
        if name.startswith("ViZDoom"):
            os.unlink(f"/dev/shm/{name}")


def test_killed_workers_and_games_leave_no_games(pool, tmp_path):
    root = pool.reset()
    first = games(tmp_path)
    assert len(first) == 2
    game, other = first
    killed(game)
    with pytest.raises(EnvFailure, match="crash"):
        pool.rollout(2, auto_reset=False, tensordict=root)
    root = pool.reset()  # starts a game in its place
    assert len(games(tmp_path)) == 2
    killed(parent_of(other))
    with pytest.raises(EnvFailure, match="SIGKILL"):
        pool.rollout(2, auto_reset=False, tensordict=root)
    pool.reset()
    assert len(games(tmp_path)) == 2
    pool.close()
    eventually(lambda: not games(tmp_path))
