"""Python envs run in this process unless a pool is given workers; nothing is measured to choose it."""

import logging
import os
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from cases import cases
from python_envs import Sampled
from torchrl.envs import TransformedEnv
from torchrl.envs.transforms import RewardSum

from torchrl_pool import PoolEnv, explain
from torchrl_pool._workers.advice import advice_on


class Noted(Sampled):
    """Writes to a file what happens to it, and in which process."""

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)
        self.note("made")

    def note(self, what):
        with self.path.open("a") as file:
            print(os.getpid(), what, file=file)

    def reset(self, *, seed=None, options=None):
        self.note("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.note("step")
        return super().step(action)

    def close(self):
        self.note("closed")


@pytest.mark.parametrize("num_workers", cases([0, 2]))
def test_envs_do_only_what_they_are_asked_to(tmp_path, num_workers):
    """A robot that is made does not move by itself."""
    path = tmp_path / "notes"
    with PoolEnv(partial(Noted, path), 2, num_workers=num_workers) as pool:
        assert [line.split()[1] for line in path.read_text().splitlines()] == ["made"]
        pool.rand_step(pool.reset())
    notes = [line.split() for line in path.read_text().splitlines()]
    assert sorted(what for _, what in notes) == sorted(["made", "reset", "step", "closed"] * 2)
    assert ({pid for pid, _ in notes} == {str(os.getpid())}) is (num_workers == 0)


def test_by_default_envs_see_what_the_program_has_changed(monkeypatch):
    """As those of SerialEnv do."""
    monkeypatch.setattr("python_envs.LIMIT", 7, raising=False)

    def make():
        import python_envs

        return Sampled(gymnasium.spaces.Box(-1, 1, (getattr(python_envs, "LIMIT", 3),)))

    assert PoolEnv(make, 2).reset()["observation"].shape == (2, 7)
    assert PoolEnv(make, 2, num_workers=1).reset()["observation"].shape == (2, 3)


class Drawn(Sampled):
    """Draws a number as it is made, from a stream that all envs share."""

    def __init__(self):
        super().__init__()
        self.number = np.random.random()


def test_envs_are_made_in_order():
    np.random.seed(0)
    expected = list(np.random.random(4))
    np.random.seed(0)
    with PoolEnv([lambda: Drawn() for _ in range(4)], 4) as pool:
        assert pool.get_attr("number") == expected


@pytest.mark.parametrize(
    ("num_workers", "num_envs", "processors", "microseconds", "advice"),
    cases(
        default=[(0, 8, 2, 60, "num_workers=2"), (0, 8, 2, 40, ""), (2, 8, 2, 20, "num_workers=0")],
        also=[
            (0, 8, 64, 250, "num_workers=8"),
            (0, 1, 2, 1_000, ""),
            (0, 8, 1, 1_000, ""),
            (2, 8, 2, 60, ""),
        ],
    ),
)
def test_advice(num_workers, num_envs, processors, microseconds, advice):
    steps = 2_100_000 // microseconds
    sentence = advice_on(num_workers, num_envs, processors, steps, steps * microseconds * 1e-6)
    assert advice in sentence
    assert bool(sentence) is bool(advice)
    assert advice_on(num_workers, num_envs, processors, steps // 3, steps * microseconds * 3e-7) == ""


class Slow(Sampled):
    def step(self, action):
        time.sleep(0.05)
        return super().step(action)


def test_advice_is_logged_once_and_shown(caplog, monkeypatch):
    monkeypatch.setattr("torchrl_pool._core.available_cpus", lambda: 2)
    with PoolEnv(Slow, 4) as pool, caplog.at_level(logging.WARNING, "torchrl_pool"):
        assert repr(explain(pool)) == "the envs run in this process"
        pool.rollout(20, break_when_any_done=False)
        (record,) = caplog.records
        assert "with num_workers=2 they run on as many processors" in record.getMessage()
        _, sentence = record.getMessage().split(" µs, ")  # steps since may have taken longer
        assert sentence in repr(explain(TransformedEnv(pool, RewardSum())))
    with PoolEnv(Sampled, 4, num_workers=2) as pool:
        assert repr(explain(pool)) == "the envs run in 2 worker processes"
    with PoolEnv("CartPole-v1", 4) as pool:
        assert "the envs run" not in repr(explain(pool))


def test_limits_that_need_workers_say_so():
    with pytest.raises(ValueError, match=r"step_timeout: expected None with num_workers=0"):
        PoolEnv(Sampled, 2, step_timeout=1.0)
    env = PoolEnv(Sampled, 2, respawn=True)  # its entry is there, and never true
    assert not env.rollout(3)["next", "respawned"].any()
    with pytest.raises(TypeError, match="num_workers, respawn: expected with Python envs alone"):
        PoolEnv("CartPole-v1", 2, num_workers=1)


def test_advice_that_cannot_be_logged_fails_no_step(monkeypatch):
    monkeypatch.setattr("torchrl_pool._core.available_cpus", lambda: 2)
    failed = []

    def fails(record):
        failed.append(record)
        raise OSError("the log is full")

    logger = logging.getLogger("torchrl_pool")
    logger.addFilter(fails)
    try:
        with PoolEnv(Slow, 4) as pool:
            pool.rollout(20, break_when_any_done=False)
    finally:
        logger.removeFilter(fails)
    assert len(failed) == 1
