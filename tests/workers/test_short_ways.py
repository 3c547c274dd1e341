"""Steps that go past wrappers, beside the wrappers' own."""

import pickle
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformReward
from python_envs import Sampled
from test_adapters import SPACES
from torchrl.envs import GymEnv, GymWrapper, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv
from torchrl_pool.workers.adapters import adapt
from torchrl_pool.workers.gym_env_adapter import GymEnvAdapter
from torchrl_pool.workers.short_step import short_step
from torchrl_pool.workers.torchrl_adapter import TorchRLAdapter

# ---- TorchRL's GymEnv


def sampled(space, **options):
    return GymWrapper(Sampled(deepcopy(space)), **options)


GYM_ENVS = {
    "one-hot": partial(GymEnv, "CartPole-v1"),
    "categorical": partial(GymEnv, "CartPole-v1", categorical_action_encoding=True),
    "continuous": partial(GymEnv, "Pendulum-v1", device="cpu"),
    "double precision": partial(GymEnv, "HalfCheetah-v5"),
    "one-hot observations": partial(GymEnv, "FrozenLake-v1"),
    "discrete observations": partial(GymEnv, "FrozenLake-v1", categorical_action_encoding=True),
    **{name: partial(sampled, space) for name, space in SPACES.items() if "multi" not in name},
}
LONG_WAY = {
    "int8",
    "dict",
    "tuple of discrete",
    "dict of tuple",
}  # one-hot of another dtype or shape, MultiBinary


@pytest.mark.parametrize("name", GYM_ENVS)
def test_gym_envs_give_what_they_give_by_themselves(name):
    ours, theirs = adapt(GYM_ENVS[name]()), TorchRLAdapter(GYM_ENVS[name]())
    assert (type(ours) is GymEnvAdapter) == (name not in LONG_WAY)
    assert ours.entries == theirs.entries
    entries = [entry for entry in ours.entries if entry.role == "observation"]
    rng = np.random.default_rng(0)

    def assert_same(outputs, expected):
        for entry, output, value in zip(entries, outputs, expected, strict=True):
            assert np.array_equal(np.asarray(output, entry.dtype).reshape(entry.shape), value), entry.name

    for seed in (3, None, 4):
        assert_same(ours.reset(seed, None), theirs.reset(seed, None))
        for _ in range(30):
            action = theirs.env.action_spec.rand(torch.Size([])).numpy()
            if rng.random() < 0.1 and action.dtype == np.int64 and action.shape:
                action[:] = 1  # the first of several counts
            outputs, reward, *flags = ours.step([action.copy()])
            expected, their_reward, *their_flags = theirs.step([action])
            assert_same(outputs, expected)
            assert np.float32(reward) == their_reward.item()
            assert list(map(bool, flags)) == their_flags
            if any(their_flags):
                assert_same(ours.reset(None, None), theirs.reset(None, None))


def with_infos():
    return GymWrapper(Sampled()).set_info_dict_reader(lambda info, tensordict: tensordict)


def with_own_method():
    env = GymEnv("CartPole-v1")
    env.read_reward = lambda reward: torch.zeros(1)
    return env


class OwnEnv(GymEnv):
    """It may do anything."""


@pytest.mark.parametrize(
    "make",
    [
        with_infos,
        with_own_method,
        partial(OwnEnv, "CartPole-v1"),
        partial(GymEnv, "CartPole-v1", frame_skip=2),
        partial(sampled, None, convert_actions_to_numpy=False),
        lambda: TransformedEnv(GymEnv("CartPole-v1"), StepCounter()),
        *(partial(sampled, space) for name, space in SPACES.items() if name.startswith("multi-binary")),
    ],
)
def test_gym_envs_that_do_more_do_it(make):
    assert type(adapt(make())) is TorchRLAdapter


class NoReward(Sampled):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, None, *rest


@pytest.mark.parametrize(
    "make",
    [
        partial(GymEnv, "MountainCar-v0"),
        partial(GymEnv, "Pendulum-v1"),
        lambda: GymWrapper(NoReward(spaces.Discrete(3))),
    ],
)
def test_rollouts_through_time_limits(make):
    ours, theirs = PoolEnv(make, 2, num_workers=1), SerialEnv(2, make)
    data = []
    for env in (ours, theirs):
        env.set_seed(0)
        torch.manual_seed(0)
        data.append(env.rollout(420, break_when_any_done=False))
    for key in data[1].keys(True, True):
        assert torch.equal(data[0][key], data[1][key]), key
    ours.close()


# ---- what gymnasium.make puts around an env


def play(step, env, count):
    rows = []
    env.reset(seed=0)
    for _ in range(count):
        observation, *rest = step(0)
        rows.append((observation.tolist(), *rest))
        if rest[1] or rest[2]:
            env.reset()
    return rows


def test_limits_are_those_of_the_wrapper():
    ours, theirs = (gymnasium.make("MountainCar-v0", max_episode_steps=7) for _ in range(2))
    for env in (ours, theirs):
        play(env.step, env, 2)  # the checker has looked at them
    step, is_short = short_step(ours)
    assert is_short
    assert play(step, ours, 20) == play(theirs.step, theirs, 20)
    assert ours.get_wrapper_attr("_elapsed_steps") == theirs.get_wrapper_attr("_elapsed_steps") == 6
    ours.set_wrapper_attr("_max_episode_steps", 2)
    assert [row[3] for row in play(step, ours, 4)] == [False, True] * 2


def test_an_env_is_checked_as_long_as_gymnasium_checks_it():
    env = gymnasium.make("CartPole-v1")
    for _ in range(2):
        assert short_step(env) == (env.step, False)
        play(env.step, env, 1)
    assert short_step(env)[1]


def test_other_wrappers_do_their_work():
    env = TransformReward(gymnasium.make("CartPole-v1", disable_env_checker=True), lambda reward: 7.0)
    step, is_short = short_step(env)
    assert is_short
    assert play(step, env, 1)[0][1] == 7.0
    twice = TimeLimit(gymnasium.make("MountainCar-v0", max_episode_steps=9, disable_env_checker=True), 4)
    assert [row[3] for row in play(short_step(twice)[0], twice, 8)] == [False, False, False, True] * 2
    env = gymnasium.make("CartPole-v1", disable_env_checker=True)
    env.step = lambda action: (np.zeros(4), 5.0, False, False, {})
    assert play(short_step(env)[0], env, 1)[0][1] == 5.0


def test_a_warning_of_the_checker_is_given():
    class Wide(Sampled):
        def step(self, action):
            observation, *rest = super().step(action)
            return observation + 9, *rest

    gymnasium.register("Wide-v0", Wide)
    try:
        pool = PoolEnv("gymnasium:Wide-v0", 1, num_workers=0)
        pool.reset()
        with pytest.warns(UserWarning, match="obs returned by the `step"):
            pool.rand_step(pool.reset())
    finally:
        gymnasium.registry.pop("Wide-v0")


@pytest.mark.parametrize(
    "make", [partial(gymnasium.make, "MountainCar-v0"), partial(GymEnv, "MountainCar-v0")]
)
def test_what_is_restored_goes_on(make):
    one, other = adapt(make()), adapt(make())
    action = one.env.action_space.sample() if isinstance(one.env, gymnasium.Env) else np.array([0, 1, 0])
    for adapter in (one, other):
        adapter.reset(0, None)
        for _ in range(3):
            adapter.step([action])
        adapter.reset(None, None)
    for _ in range(150):
        one.step([action])
    other.restore(pickle.loads(pickle.dumps(one.state())))
    ends = [next(i for i in range(99) if adapter.step([action])[3]) for adapter in (one, other)]
    assert ends == [49, 49]
