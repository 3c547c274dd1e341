"""Where Python envs run by default, which a trial decides, and what the trial leaves behind: nothing."""

import os
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from python_envs import Sampled, Scripted
from torchrl.envs import GymEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import RewardSum

from torchrl_pool import EnvFailure, PoolEnv, explain
from torchrl_pool._workers import worker_set
from torchrl_pool._workers.placement import fastest_placement, placement_asked_for

MICROSECOND = 1e-6


@pytest.mark.parametrize(
    ("num_envs", "processors", "microseconds", "workers"),
    [
        (2, 2, 5, 0),
        (8, 2, 5, 0),
        (2, 2, 60, 0),
        (8, 2, 60, 2),
        (64, 2, 5, 2),
        (2, 2, 1_000, 2),
        (3, 64, 1_000, 3),
        (64, 64, 5, 11),  # more of them would take longer to be woken than they save
        (64, 64, 100_000, 64),
    ],
)
def test_the_choice_by_costs(num_envs, processors, microseconds, workers):
    placement = fastest_placement(num_envs, processors, microseconds * MICROSECOND)
    assert (placement.num_workers, placement.caller_steps) == (workers, workers == 0)


def test_envs_that_nobody_could_try_run_in_workers():
    placement = fastest_placement(8, 4, None)
    assert (placement.num_workers, placement.caller_steps) == (4, False)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"num_envs": 1}, (0, True)),
        ({"num_processors": 1}, (0, True)),
        ({"has_processes": False}, (0, True)),
        ({"needs_processes": True}, (4, False)),
        ({"needs_processes": True, "num_envs": 1}, (1, False)),
        ({"needs_processes": True, "num_processors": 1}, (1, False)),
        ({"num_workers": 0}, (0, True)),
        ({"num_workers": 1, "num_envs": 1}, (1, False)),
        ({"num_workers": 16}, (8, False)),
        ({"caller_steps": True}, (3, True)),
        ({"caller_steps": True, "num_workers": 16}, (7, True)),
    ],
    ids=str,
)
def test_what_is_asked_for_is_done(asked, expected):
    """Envs that are to be ended, or replaced, are never where they cannot be."""
    given = {
        "num_envs": 8,
        "num_processors": 4,
        "num_workers": None,
        "caller_steps": False,
        "has_processes": True,
        "needs_processes": False,
    }
    placement = placement_asked_for(**{**given, **asked})
    assert (placement and (placement.num_workers, placement.caller_steps)) == expected


@pytest.fixture
def cost(monkeypatch):
    """Sets what a trial is believed to have found, on two processors; and keeps what it did find."""
    found = []

    def believe(seconds):
        def choose(num_envs, num_processors, step_seconds):
            found.append(step_seconds)
            return fastest_placement(num_envs, 2, seconds)

        monkeypatch.setattr(worker_set, "fastest_placement", choose)
        return found

    monkeypatch.setattr("torchrl_pool._core.available_cpus", lambda: 2)
    return believe


class Noted(Sampled):
    """Writes to a file what happens to it, and in which process. Draws from a stream that all envs share."""

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)
        self.note("made")

    def note(self, what):
        with self.path.open("a") as file:
            print(os.getpid(), what, file=file)

    def reset(self, *, seed=None, options=None):
        self.note("reset")
        return super().reset(seed=seed, options=options)[0] * 0 + np.random.random(3), {}

    def close(self):
        self.note("closed")


@pytest.mark.parametrize(("seconds", "here"), [(1e-6, True), (1.0, False)], ids=["here", "workers"])
def test_a_trial_is_made_with_an_env_more(tmp_path, cost, seconds, here):
    """In a process of its own: the pool's envs, and the streams that they draw from, have not moved."""
    found, path = cost(seconds), tmp_path / "notes"
    np.random.seed(0)
    with PoolEnv(partial(Noted, path), 4, seed=None) as pool:
        (tried, *_), *_ = notes = [line.split() for line in path.read_text().splitlines()]
        assert [what for pid, what in notes if pid == tried and what != "reset"] == ["made", "closed"]
        assert isinstance(found[0], float)
        root = pool.reset(seed=0)
        notes = [line.split() for line in path.read_text().splitlines() if not line.startswith(f"{tried} ")]
        assert sorted(what for _, what in notes) == ["made"] * 4 + ["reset"] * 4
        assert ({pid for pid, _ in notes} == {str(os.getpid())}) is here
        assert pool.placement.caller_steps is here
    if here:
        np.random.seed(0)
        expected = np.stack([np.random.random(3) for _ in range(4)])
        assert torch.equal(root["observation"], torch.from_numpy(expected.astype(np.float32)))


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"respawn": True}, {"step_timeout": 60.0}], ids=str)
def test_who_asks_for_workers_has_them_without_a_trial(tmp_path, cost, options):
    found, path = cost(1e-6), tmp_path / "notes"
    with PoolEnv(partial(Noted, path), 2, **options) as pool:
        pool.reset()
        assert pool.placement.num_workers > 0
    assert found == []
    assert str(os.getpid()) not in path.read_text()


@pytest.mark.parametrize("event", ["raise", "exit", "crash", "interrupt", 1_000.0], ids=str)
def test_an_env_that_fails_in_its_trial_runs_in_workers(cost, monkeypatch, event):
    monkeypatch.setattr(worker_set, "TRYING_SECONDS", 1.0 if event == 1_000.0 else 60.0)
    found = cost(None)
    with PoolEnv(partial(Scripted, {3: event}), 2) as pool:
        assert found == [None]
        assert pool.placement.num_workers == 2
        root = pool.reset(options={"script": {1: "raise"}})
        with pytest.raises(EnvFailure, match="as the script says"):
            pool.step(root.set("action", pool.action_spec.rand()))


@pytest.mark.parametrize("seconds", [1e-6, 1.0], ids=["here", "workers"])
def test_the_choice_changes_no_number(cost, seconds):
    cost(seconds)
    make = partial(GymEnv, "CartPole-v1")
    with PoolEnv("gymnasium:CartPole-v1", 3, seed=0) as pool:
        reference = SerialEnv(3, make)
        reference.set_seed(0)
        torch.manual_seed(0)
        expected = reference.rollout(50, break_when_any_done=False)
        torch.manual_seed(0)
        found = pool.rollout(50, break_when_any_done=False)
        assert (found == expected.select(*found.keys(True, True))).all()
        reference.close()


def test_torchrls_envs_are_not_tried(cost):
    found = cost(None)
    with PoolEnv(partial(GymEnv, "CartPole-v1"), 2) as pool:
        assert found == [None]
        assert pool.placement.num_workers == 2


def test_explain_says_where_envs_run(cost):
    cost(12e-6)
    with PoolEnv("gymnasium:CartPole-v1", 4) as pool:
        line = "the envs run in this process: a step takes about 12 µs, and 4 are not worth sharing out"
        assert repr(explain(pool)) == line
        assert repr(explain(TransformedEnv(pool, RewardSum()))).endswith(line)
    with PoolEnv("CartPole-v1", 4) as pool:
        assert pool.placement is None
        assert "the envs run" not in repr(explain(pool))


class Recorder(gymnasium.Wrapper):
    """Writes a file once it is closed, if it has seen anything."""

    def __init__(self, env, path):
        super().__init__(env)
        self.path, self.frames = path, []

    def step(self, action):
        self.frames.append(action)
        return super().step(action)

    def close(self):
        if self.frames:
            self.path.touch()
        super().close()


def test_wrappers_forget_the_trial(tmp_path, cost):
    """And what they would write of it, such as a video of the first episode."""
    cost(1e-6)
    path = tmp_path / "video"
    with PoolEnv(lambda: Recorder(gymnasium.make("CartPole-v1"), path), 2) as pool:
        assert not path.exists()
        pool.rollout(2)
    assert path.exists()
