"""Keys of spaces are the users' own where no tensordict is seen; TorchRL's names stay behind."""

import contextlib
from functools import partial

import gymnasium
import numpy as np
import pytest
from cases import cases
from front_envs import Keyed
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from stable_baselines3.common.vec_env import DummyVecEnv

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv


def test_any_key_for_stable_baselines3():
    class OneAction(Keyed):
        def __init__(self):
            super().__init__("reward", "a/b", "action", "done")
            self.action_space = spaces.Box(-9, 9, (2,), np.float32)

        def step(self, action):
            return super().step({"x": 1, **dict.fromkeys(self.keys, action)})

    ours, theirs = PoolVecEnv(OneAction, 2, num_workers=0), DummyVecEnv([OneAction] * 2)
    with contextlib.closing(ours), contextlib.closing(theirs):
        for one in (ours, theirs):
            one.seed(0)
        assert data_equivalence(dict(ours.reset()), dict(theirs.reset()))
        for t in range(4):
            actions = np.full((2, 2), t, np.float32)
            (seen, *_, infos), (due, *_, expected) = ours.step(actions), theirs.step(actions)
            assert data_equivalence(dict(seen), dict(due))
            np.testing.assert_equal(infos, expected)


def test_errors_name_the_keys():
    envs = PoolVectorEnv(partial(Keyed, "a/b"), 2, num_workers=0)
    with contextlib.closing(envs):
        envs.reset()
        right = {"x": [0, 1], "a/b": np.zeros((2, 2), np.float32)}
        with pytest.raises(ValueError, match=r"action\.x.*env 1"):
            envs.step({**right, "x": [0, 3]})
        with pytest.raises(ValueError, match=r"action\.a\.b.*shape"):
            envs.step({**right, "a/b": np.zeros((2, 3), np.float32)})
        envs.step(right)


@pytest.mark.parametrize(
    ("key", "message"), cases([("a/b", "separates nested levels"), (0, "expected a string")])
)
def test_tensordicts_need_keys_of_their_own(key, message):
    with pytest.raises(EnvFailure, match=message):
        PoolEnv(partial(Keyed, key), 2, num_workers=0)


class Choice(gymnasium.Env):
    """Its observation is a choice, as a whole number of Python."""

    observation_space = spaces.Tuple([spaces.Discrete(5), spaces.Dict(at=spaces.Discrete(3, start=2))])
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return (0, {"at": 2}), {}

    def step(self, action):
        return (4, {"at": 3}), 0.0, True, False, {}


def test_last_choices_are_whole_numbers_of_python():
    with contextlib.closing(PoolVectorEnv(Choice, 1, num_workers=0, autoreset_mode="SameStep")) as envs:
        envs.reset()
        last = envs.step([0])[4]["final_obs"][0]
    assert data_equivalence(last, (4, {"at": 3}), exact=True)
    with contextlib.closing(PoolVecEnv("FrozenLake-v1", 1, max_episode_steps=1)) as env:
        env.reset()
        assert type(env.step(np.array([0]))[3][0]["terminal_observation"]) is int


@pytest.mark.parametrize("kind", cases([PoolEnv, PoolVectorEnv, PoolVecEnv]))
def test_a_sequence_of_tasks_says_how_many_envs_there_are(kind):
    env = kind([partial(gymnasium.make, "CartPole-v1")] * 3)
    assert env.num_envs == 3
    env.close()
    assert kind(["CartPole-v1"] * 2).num_envs == 2
    with pytest.raises(ValueError, match="task: expected at least one, got an empty sequence"):
        kind([])
    if kind is PoolVectorEnv:
        assert kind("CartPole-v1").num_envs == 1
    else:
        with pytest.raises(TypeError, match="num_envs: expected a number"):
            kind("CartPole-v1")


@pytest.mark.parametrize("kind", cases([PoolVectorEnv, PoolVecEnv]))
def test_dm_controls_names_of_a_task_are_one_task(kind):
    with contextlib.closing(kind(("cartpole", "swingup"), 2)) as env:
        assert env.num_envs == 2
    if kind is PoolVectorEnv:
        with contextlib.closing(kind(("cartpole", "swingup"))) as env:
            assert env.num_envs == 1
