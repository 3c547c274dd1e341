"""Where Python envs run by default, which a trial decides, and what the trial leaves behind: nothing."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from python_envs import Sampled, Scripted
from stable_baselines3.common.monitor import Monitor
from torchrl.envs import GymEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import RewardSum

from torchrl_pool import EnvFailure, PoolEnv, explain
from torchrl_pool._workers import probe, worker_set
from torchrl_pool._workers.placement import fastest_placement, placement_asked_for
from torchrl_pool._workers.worker_set import WorkerSet

MICROSECOND = 1e-6


@pytest.mark.parametrize(
    ("num_envs", "processors", "microseconds", "torch_threads", "workers", "here"),
    [
        (2, 2, 5, 1, 0, 2),
        (8, 2, 22, 1, 1, 5),  # this process steps some while the worker wakes up
        (2, 2, 60, 1, 0, 2),
        (8, 2, 60, 1, 2, 0),
        (64, 2, 5, 1, 2, 0),
        (3, 64, 1_000, 1, 3, 0),
        (64, 64, 5, 1, 11, 0),  # more of them would take longer to be woken than they save
        (64, 64, 100_000, 1, 64, 0),
        (8, 2, 22, 2, 0, 8),  # torch's other thread has the other processor
        (8, 2, 1_000, 2, 0, 8),
        (64, 2, 1_000, 2, 2, 0),  # only for a part of such a vector step
        (2, 8, 100_000, 8, 2, 0),
        (64, 16, 250, 16, 16, 0),  # at half their speed
    ],
)
def test_the_choice_by_costs(num_envs, processors, microseconds, torch_threads, workers, here):
    placement = fastest_placement(num_envs, processors, microseconds * MICROSECOND, torch_threads)
    assert (placement.num_workers, placement.num_here) == (workers, here)
    assert ("torch.set_num_threads(1)" in str(placement)) is (torch_threads == 2 and workers == 0)


def test_envs_that_nobody_could_try_run_in_workers():
    placement = fastest_placement(8, 4, None, 4)
    assert (placement.num_workers, placement.num_here) == (4, 0)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"num_envs": 1}, (0, 1)),
        ({"num_processors": 1}, (0, 8)),
        ({"has_processes": False}, (0, 8)),
        ({"needs_processes": True}, (4, 0)),
        ({"needs_processes": True, "num_envs": 1}, (1, 0)),
        ({"needs_processes": True, "num_processors": 1}, (1, 0)),
        ({"num_workers": 0}, (0, 8)),
        ({"num_workers": 1, "num_envs": 1}, (1, 0)),
        ({"num_workers": 16}, (8, 0)),
        ({"caller_steps": True}, (3, 2)),
        ({"caller_steps": True, "num_workers": 16}, (7, 1)),
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
    assert (placement and (placement.num_workers, placement.num_here)) == expected


@pytest.fixture
def cost(monkeypatch):
    """Sets what trials are believed to have found, on two processors; and keeps what they did find."""
    found, tried = [], WorkerSet._tried

    def believe(seconds):
        def believed(self):
            found.append(tried(self))
            return seconds

        monkeypatch.setattr(WorkerSet, "_tried", believed)
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
        made, *resets, closed = [what for pid, what in notes if pid == tried]
        assert (made, {*resets}, closed) == ("made", {"reset"}, "closed")
        assert isinstance(found[0], float)
        root = pool.reset(seed=0)
        notes = [line.split() for line in path.read_text().splitlines() if not line.startswith(f"{tried} ")]
        assert sorted(what for _, what in notes) == ["made"] * 4 + ["reset"] * 4
        assert ({pid for pid, _ in notes} == {str(os.getpid())}) is here
        assert (pool.placement.num_here > 0) is here
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
@pytest.mark.parametrize("step", [0, 3], ids=["reset", "step"])
def test_an_env_that_fails_in_its_trial_runs_in_workers(cost, monkeypatch, step, event):
    monkeypatch.setattr(worker_set, "TRYING_SECONDS", 1.0 if event == 1_000.0 else 60.0)
    found = cost(None)
    with PoolEnv(partial(Scripted, {step: event}), 2) as pool:
        assert found == [None]
        assert pool.placement.num_workers == 2
        root = pool.reset(options={"script": {1: "raise"}})
        with pytest.raises(EnvFailure, match="as the script says"):
            pool.step(root.set("action", pool.action_spec.rand()))


@pytest.mark.parametrize(
    ("seconds", "workers", "here"),
    [(1e-6, 0, 8), (22e-6, 1, 5), (1.0, 2, 0)],
    ids=["here", "both", "workers"],
)
def test_the_choice_changes_no_number(cost, seconds, workers, here):
    cost(seconds)
    make = partial(GymEnv, "CartPole-v1")
    with PoolEnv("gymnasium:CartPole-v1", 8, seed=0) as pool:
        assert (pool.placement.num_workers, pool.placement.num_here) == (workers, here)
        reference = SerialEnv(8, make)
        reference.set_seed(0)
        torch.manual_seed(0)
        expected = reference.rollout(50, break_when_any_done=False)
        torch.manual_seed(0)
        found = pool.rollout(50, break_when_any_done=False)
        assert (found == expected.select(*found.keys(True, True))).all()
        reference.close()


def noted_env(path):
    with path.open("a") as file:
        print("made", file=file)
    return GymEnv("CartPole-v1")


def test_torchrls_envs_are_not_tried(tmp_path, cost):
    """Nor is one more made."""
    found, path = cost(1e-6), tmp_path / "notes"
    with PoolEnv(partial(noted_env, path), 2) as pool:
        assert pool.placement.num_workers == 2
        pool.reset()
    assert found == []
    assert len(path.read_text().splitlines()) == 2


def test_envs_that_take_long_to_be_made_are_made_at_the_same_time(tmp_path, cost, monkeypatch):
    monkeypatch.setattr(worker_set, "MAKING_SECONDS", 0.0)
    found, path = cost(1e-6), tmp_path / "notes"
    with PoolEnv(partial(Noted, path), 2) as pool:
        assert "to make them one after another" in str(pool.placement)
        pool.reset()
        notes = [line.split() for line in path.read_text().splitlines()]
    assert found == []
    assert sorted(what for _, what in notes) == ["made", "made", "reset", "reset"]
    assert len({pid for pid, _ in notes}) == 2


class Illegal(Noted):
    def step(self, action):
        raise ValueError("illegal move")


def test_an_env_whose_trial_fails_is_closed(tmp_path, cost):
    cost(None)
    path = tmp_path / "notes"
    with PoolEnv(partial(Illegal, path), 2) as pool:
        pool.reset()
    notes = [line.split()[1] for line in path.read_text().splitlines()]
    assert notes.count("made") == notes.count("closed") == 3


class Drawn(Sampled):
    """Draws a number as it is made, from a stream that all envs share."""

    def __init__(self):
        super().__init__()
        self.number = np.random.random()


def test_envs_are_made_in_order(cost):
    cost(1e-6)
    np.random.seed(0)
    expected = list(np.random.random(4))
    np.random.seed(0)
    with PoolEnv([lambda: Drawn() for _ in range(4)], 4) as pool:
        assert pool.get_attr("number") == expected


def test_envs_are_described_where_they_live(cost):
    """In this process they may be others than in the trial's, as a program has set a module's variables."""
    cost(1e-6)
    here = os.getpid()

    def make():
        return Sampled(gymnasium.spaces.Box(-1, 1, (7 if os.getpid() == here else 3,)))

    with PoolEnv(make, 2) as pool:
        assert pool.reset()["observation"].shape == (2, 7)


class Stuck(Sampled):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def step(self, action):
        self.path.touch()
        time.sleep(1_000)


def test_an_interrupted_trial_ends_at_once(tmp_path, cost, monkeypatch):
    monkeypatch.setattr(worker_set, "TRYING_SECONDS", 1_000.0)
    cost(1e-6)
    path, start = tmp_path / "step", []

    def interrupt():
        while not path.exists():
            time.sleep(0.01)
        start.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        PoolEnv(partial(Stuck, path), 2)
    assert time.monotonic() - start[0] < 5.0
    thread.join()


class Slow(Sampled):
    """Its resets, above all the first, and the first step of each episode are; its others are not."""

    number_of_resets = 0

    def reset(self, *, seed=None, options=None):
        self.number_of_resets += 1
        time.sleep(0.4 if self.number_of_resets == 1 else 0.1)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        time.sleep(0.1 * (self.steps == 0))
        return super().step(action)


@pytest.mark.parametrize(("episode", "least", "most"), [(10, 0.01, 0.02), (10**9, 0.0, 0.01)])
def test_a_trial_counts_resets_and_no_first_step(monkeypatch, episode, least, most):
    monkeypatch.setattr(probe, "TIMED_SECONDS", 1.0)
    assert least < probe.seconds_per_step(Slow(episode=episode)) < most


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
    """Writes a file once it is closed."""

    def __init__(self, env, path):
        super().__init__(env)
        self.path = path

    def close(self):
        self.path.touch()
        super().close()


class RecordVideo(gymnasium.Wrapper):
    """Stands for Gymnasium's, which needs further packages."""

    def __init__(self, env, video_folder):
        super().__init__(env)
        self.video_folder = str(video_folder)


def appending(env, path):
    return Monitor(env, str(path), override_existing=False)


@pytest.mark.parametrize("wrap", [appending, RecordVideo, Recorder])
def test_who_writes_files_is_not_tried(tmp_path, cost, wrap):
    """Nor is one more made, which would write them, too."""
    found = cost(1e-6)
    with PoolEnv(lambda: wrap(Noted(tmp_path / "notes"), tmp_path / "file"), 2) as pool:
        assert pool.placement.num_workers == 2
        pool.reset()
        assert (tmp_path / "notes").read_text().count("made") == 2
    assert found == []


class Copied:
    """Writes a file where it is copied."""

    def __init__(self, path):
        self.path = path

    def __deepcopy__(self, memo):
        self.path.touch()
        return self


class Large(gymnasium.Wrapper):
    def __init__(self, env, path):
        super().__init__(env)
        self.data = Copied(path)


def test_a_trial_copies_nothing(tmp_path, cost):
    found, path = cost(1e-6), tmp_path / "copied"
    with PoolEnv(lambda: Large(Sampled(), path), 2):
        assert len(found) == 1
    assert not path.exists()
