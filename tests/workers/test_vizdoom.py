"""ViZDoom's games, which are processes of their own, with the files that they share with their worker."""

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
    """Ids of the games that run in a folder, and their files."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            if words[0].endswith("vizdoom") and (process / "cwd").readlink().parent == folder:
                found[int(process.name)] = words[words.index("+viz_instance_id") + 1]
        except OSError:
            pass
    return found


def files(instances):
    return [name for name in os.listdir("/dev/shm") if name.endswith(tuple(instances))]


def test_killed_workers_and_games_leave_nothing(pool, tmp_path):
    root = pool.reset()
    first = games(tmp_path)
    assert len(first) == 2
    assert len(files(first.values())) == 6
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
    second = games(tmp_path)
    assert len(second) == 2
    eventually(lambda: not files(first.values()) and len(files(second.values())) == 6)
    pool.close()
    assert not games(tmp_path)
    eventually(lambda: not files(second.values()))
