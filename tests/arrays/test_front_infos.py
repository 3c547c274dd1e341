"""What envs of Python tell in their infos reaches users of Gymnasium's and SB3's vector envs."""

import contextlib
from functools import partial

import gymnasium
import numpy as np
import pytest
from cases import cases
from front_envs import Talkative
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from torchrl_pool import EnvFailure
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

ENVS = [partial(Talkative, length, first) for first, length in enumerate((3, 4, 2, 5, 3))]
N = len(ENVS)
PLACES = {
    "here": {"num_workers": 0},
    "elsewhere": {"num_workers": 2},
}


@pytest.fixture(params=PLACES)
def place(request):
    return PLACES[request.param]


@contextlib.contextmanager
def pair(ours, theirs):
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield ours, theirs


@pytest.mark.parametrize("mode", cases(AutoresetMode))
def test_infos_are_those_of_the_sync_vector_env(mode, place):
    ours = PoolVectorEnv(ENVS, N, autoreset_mode=mode, **place)
    with pair(ours, SyncVectorEnv(ENVS, autoreset_mode=mode)) as envs:
        first, expected = (one.reset(seed=0)[1] for one in envs)
        assert data_equivalence(first, expected, exact=True)
        for t in range(12):
            actions = (np.arange(N) + t) % 3
            results, due = (one.step(actions) for one in envs)
            for actual, expected in zip(results, due, strict=True):
                assert data_equivalence(actual, expected, exact=True), f"step {t}: {actual} is not {expected}"
            ended = due[2] | due[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                first, expected = (one.reset(options={"reset_mask": ended.copy()})[1] for one in envs)
                assert data_equivalence(first, expected, exact=True)


def test_infos_are_those_of_dummy_vec_env(place):
    with pair(PoolVecEnv(ENVS, N, **place), DummyVecEnv(ENVS)) as envs:
        for one in envs:
            one.seed(0)
            one.reset()
        ours, theirs = envs
        assert ours.reset_infos == theirs.reset_infos
        for t in range(12):
            actions = (np.arange(N) + t) % 3
            infos, expected = (one.step(actions)[3] for one in envs)
            np.testing.assert_equal(infos, expected)
            assert ours.reset_infos == theirs.reset_infos
            infos[0]["mine"] = 1  # a caller's dict


def test_infos_are_copies(place):
    with contextlib.closing(PoolVecEnv(partial(Talkative, 50, 2), 1, **place)) as env:
        env.reset()
        kept = [env.step([0])[3][0] for _ in range(5)]
        assert kept[0]["position"].tolist() == [1, 1]
        assert kept[4]["position"].tolist() == [5, 5]


def test_named_infos_are_the_only_ones():
    names = ["deep/down", "score", "no such"]
    with contextlib.closing(PoolVecEnv(ENVS[:1], 1, num_workers=0, info_keys=names)) as env:
        env.reset()
        infos = [env.step([0])[3][0] for _ in range(3)]
    own = {"TimeLimit.truncated": False}
    assert infos[0] == {"score": 0.5, **own}
    assert infos[1] == {"deep": {"down": {"count": 2, "path/with slash": 1}}, **own}
    assert set(infos[2]) == {"terminal_observation", *own}
    with contextlib.closing(PoolVectorEnv(ENVS, N, num_workers=1, info_keys=["score"])) as envs:
        assert envs.reset()[1] == {}
        infos = envs.step(np.zeros(N, np.int64))[4]
        assert set(infos) == {"score", "_score"}
        assert infos["_score"].tolist() == [True, False, False, False, True]
        assert infos["score"].tolist() == [0.5, 0, 0, 0, 0.5]


def test_no_infos_are_wanted():
    with contextlib.closing(PoolVectorEnv(ENVS, N, num_workers=1, info_keys=())) as envs:
        assert envs.reset()[1] == {}
        assert envs.step(np.zeros(N, np.int64))[4] == {}
    with contextlib.closing(PoolVecEnv(lambda: Monitor(Talkative(2)), 1, num_workers=0, info_keys=())) as env:
        env.reset()
        infos = [env.step([0])[3][0] for _ in range(2)]
    assert set(infos[0]) == {"TimeLimit.truncated"}
    assert infos[1]["episode"]["l"] == 2


def test_infos_of_every_env_beside_those_that_tasks_have():
    with contextlib.closing(PoolVecEnv(ENVS[:1], 1, num_workers=0, info_keys=["step_count", "score"])) as env:
        env.reset()
        assert env.step([0])[3][0] == {"step_count": 1, "score": 0.5, "TimeLimit.truncated": False}


class Large(Talkative):
    def step(self, action):
        *step, _ = super().step(action)
        return (*step, {"picture": np.full((self.count, 70_000), self.first, np.uint8)})


def test_large_infos():
    envs = [partial(Large, 9, first) for first in range(4)]
    with contextlib.closing(PoolVecEnv(envs, 4, num_workers=2)) as env:
        env.reset()
        for t in range(1, 6):
            for first, info in enumerate(env.step(np.zeros(4, np.int64))[3]):
                assert info["picture"].shape == (t, 70_000)
                assert (info["picture"] == first).all()


class Unspeakable(Talkative):
    def step(self, action):
        *step, info = super().step(action)
        return (*step, {**info, "generator": (i for i in range(3))})


def test_infos_that_cannot_be_pickled():
    with contextlib.closing(PoolVecEnv(Unspeakable, 1, num_workers=1)) as env:
        env.reset()
        with pytest.raises(EnvFailure, match=r"'generator'.*info_keys names those that are wanted"):
            env.step([0])
    for options in ({"num_workers": 0}, {"num_workers": 1, "info_keys": ["score"]}):
        with contextlib.closing(PoolVecEnv(Unspeakable, 1, **options)) as env:
            env.reset()
            assert env.step([0])[3][0]["score"] == 0.5


class Broken(Talkative):
    def step(self, action):
        if action == 2:
            raise ValueError("broken")
        return super().step(action)


def test_infos_of_a_step_that_failed_are_no_others(place):
    envs = [partial(Broken, 50, first) for first in (1, 0)]
    with contextlib.closing(PoolVectorEnv(envs, 2, **place)) as env:
        env.reset()
        with pytest.raises(EnvFailure, match="broken"):
            env.step([0, 2])
        infos = env.reset()[1]
        assert set(infos) == {"first", "_first", "began", "_began"}
        assert infos["_first"].tolist() == [True, False]


def test_infos_of_processes_that_were_lost_and_made_anew():
    class Fatal(Talkative):
        def step(self, action):
            if action == 2:
                import os

                os._exit(1)
            return super().step(action)

    with contextlib.closing(PoolVecEnv(partial(Fatal, 50), 2, num_workers=2, respawn=True)) as env:
        env.reset()
        env.step([0, 2])
        infos = env.step([0, 0])[3]
        assert "deep" in infos[0]
        assert infos[1]["score"] == 0.5


def test_gymnasiums_wrappers_of_vector_envs_see_infos():
    def made(cls, **place):
        envs = [lambda env=env: gymnasium.wrappers.RecordEpisodeStatistics(env()) for env in ENVS]
        return gymnasium.wrappers.vector.DictInfoToList(
            cls(envs, *([N] if place else []), autoreset_mode=AutoresetMode.SAME_STEP, **place)
        )

    with pair(made(PoolVectorEnv, num_workers=1), made(SyncVectorEnv)) as envs:
        for one in envs:
            one.reset(seed=0)
        told = 0
        for _ in range(6):
            infos, expected = (one.step(np.zeros(N, np.int64))[4] for one in envs)
            for info, due in zip(infos, expected, strict=True):
                for each in (info, due):
                    if "final_info" in each:
                        told += 1
                        del each["final_info"]["episode"]["t"]
                np.testing.assert_equal(info, due)
        assert told
