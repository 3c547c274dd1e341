"""Envs of Gymnasium and TorchRL's GymEnvs around them, step by step beside GymEnv itself."""

import itertools
import os
import pickle
from contextlib import closing
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from python_envs import Sampled
from test_python_spaces import Told
from torchrl.envs import GymEnv, GymWrapper, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool._workers.adapters import adapt
from torchrl_pool._workers.torchrl_adapter import TorchRLAdapter

BOX = spaces.Box(-9, 9, (2,))

# ---- TorchRL's GymEnv


def sampled(space, action_space=None, **options):
    return GymWrapper(Sampled(deepcopy(space), deepcopy(action_space)), **options)


def told(space, observation, reward=1.0, **options):
    return GymWrapper(Told(space, observation, reward), **options)


@pytest.mark.parametrize(
    ("space", "observation"),
    cases(
        default=[
            (spaces.Discrete(3), 3),
            (BOX, np.ones(3, np.float32)),
            (spaces.Dict(a=BOX), np.ones(3, np.float32)),
        ],
        also=[(spaces.Discrete(3), -1)],
    ),
)
def test_observations_that_gym_env_refuses_are_refused(space, observation):
    env = told(space, observation)
    with pytest.raises((ValueError, RuntimeError, AssertionError, KeyError)):
        TorchRLAdapter(env).reset(None, None)
    pool = PoolEnv(lambda: env, 1, num_workers=0)
    with pytest.raises(EnvFailure):
        pool.reset()


def with_infos():
    return GymWrapper(Sampled()).set_info_dict_reader(lambda info, tensordict: tensordict)


def with_own_method():
    env = GymEnv("CartPole-v1")
    env.read_reward = lambda reward: torch.zeros(1)
    return env


class OwnEnv(GymEnv):
    """It may do anything."""


class TwoRewards(Sampled):
    reward_space = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    "make",
    cases(
        default=[
            with_own_method,
            partial(OwnEnv, "CartPole-v1"),
            partial(sampled, None, convert_actions_to_numpy=False),
        ],
        also=[
            with_infos,
            partial(GymEnv, "CartPole-v1", frame_skip=2),
            partial(sampled, None, spaces.MultiDiscrete([3, 3])),
            lambda: GymWrapper(TwoRewards()),
            lambda: TransformedEnv(GymEnv("CartPole-v1"), StepCounter()),
        ],
    ),
)
def test_gym_envs_that_do_more_do_it(make):
    assert type(adapt(make())) is TorchRLAdapter


@pytest.mark.parametrize("name", cases(["MountainCar-v0", "Pendulum-v1"]))
def test_rollouts_through_time_limits(name):
    make = partial(GymEnv, name)
    ours, theirs = PoolEnv(make, 2, num_workers=1), SerialEnv(2, make)
    data = []
    for env in (ours, theirs):
        env.set_seed(0)
        torch.manual_seed(0)
        data.append(env.rollout(420, break_when_any_done=False))
    for key in data[1].keys(True, True):
        assert torch.equal(data[0][key], data[1][key]), key
    ours.close()


def test_flags_that_are_none_are_the_envs_failure():
    class Torn(Sampled):
        def step(self, action):
            observation, reward, *_ = super().step(action)
            return observation, reward, np.array([True, False]), False, {}

    pool = PoolEnv(lambda: Torn(), 1, num_workers=0)
    with pytest.raises(EnvFailure, match="ambiguous"):
        pool.rand_step(pool.reset())


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


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_a_pool_counts_in_the_wrapper(num_workers):
    make = partial(gymnasium.make, "MountainCar-v0", max_episode_steps=7)
    theirs = make()
    play(theirs.step, theirs, 2)
    with closing(PoolEnv(make, 1, num_workers=num_workers)) as env:

        def truncated(count):
            root = env.reset()
            rows = []
            for _ in range(count):
                stepped, root = env.step_and_maybe_reset(root.set("action", env.action_spec.rand()))
                rows.append(stepped["next", "truncated"].item())
            return rows

        assert truncated(20) == [row[3] for row in play(theirs.step, theirs, 20)]
        assert env.get_attr("_elapsed_steps") == [theirs.get_wrapper_attr("_elapsed_steps")]
        env.set_attr("_max_episode_steps", 2)
        assert truncated(4) == [False, True] * 2


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("returned", "error"),
    cases(
        default=[
            ((np.zeros(2), 0.0, False, False, {}, {}), r"ValueError: too many values to unpack \(expected 5"),
            (None, "TypeError: cannot unpack non-iterable NoneType object"),
        ],
        also=[
            ((np.zeros(2), 0.0, False, {}), r"ValueError: not enough values to unpack \(expected 5, got 4\)"),
            (
                (np.zeros(3, np.float32), 0.0, False, False, {}),
                r"entry 'observation': expected float32 \[2\]",
            ),
        ],
    ),
)
def test_what_is_no_step_fails(num_workers, returned, error):
    class Wrong(Told):
        def step(self, action):
            return returned

    with closing(PoolEnv(partial(Wrong, BOX, np.zeros(2, np.float32)), 2, num_workers=num_workers)) as env:
        root = env.reset().set("action", env.action_spec.rand())
        with pytest.raises(EnvFailure, match=error):
            env.step_and_maybe_reset(root)


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_a_step_that_yields_without_end_fails(num_workers):
    class Endless(Told):
        def step(self, action):
            return itertools.count()

    with closing(PoolEnv(partial(Endless, BOX, np.zeros(2, np.float32)), 2, num_workers=num_workers)) as env:
        root = env.reset().set("action", env.action_spec.rand())
        with pytest.raises(EnvFailure, match="too many values to unpack"):
            env.step(root)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", cases([list, iter]))
def test_steps_may_be_any_iterable(num_workers, kind):
    class Lists(Told):
        def step(self, action):
            return kind(super().step(action))

    with closing(
        PoolEnv(partial(Lists, BOX, np.ones(2, np.float32), 3.0), 2, num_workers=num_workers)
    ) as env:
        stepped = env.step(env.reset().set("action", env.action_spec.rand()))["next"]
        assert stepped["observation"].eq(1).all()
        assert stepped["reward"].eq(3).all()


MAKERS = [partial(gymnasium.make, "MountainCar-v0"), partial(GymEnv, "MountainCar-v0")]


@pytest.mark.parametrize("make", cases(MAKERS))
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


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_what_is_set_in_mid_episode_counts(num_workers):
    """The step of a Gymnasium env; what is set on a GymEnv is its own, see test_layers_of_envs.py."""
    pool = PoolEnv(MAKERS[0], 1, num_workers=num_workers, max_episode_steps=None)
    for _ in range(2):
        pool.rollout(3)
    pool.set_attr("step", lambda action: (np.zeros(2, np.float32), 7.0, False, False, {}))
    assert pool.rand_step(pool.rand_action())["next", "reward"].item() == 7
    pool.close()


def test_an_env_that_is_rebuilt_is_stepped_from_its_next_reset_on():
    env = GymEnv("Pendulum-v1", g=10.0)
    adapter = adapt(env)
    adapter.reset(0, None)
    adapter.step([np.zeros(1, np.float32)])
    env.rebuild_with_kwargs(g=1.0)
    rewards = []
    for one in (adapter, TorchRLAdapter(GymEnv("Pendulum-v1", g=1.0))):
        one.reset(0, None)
        rewards.append([np.float32(one.step([np.ones(1, np.float32)])[1]).item() for _ in range(5)])
    assert rewards[0] == rewards[1]


class TwoEntries(Told):
    def end_process(self):
        os._exit(1)


def make_one_or_two_entries(mark):
    """An env of two entries, or of one as soon as there is this file."""
    if mark.exists():
        return Told(BOX, np.ones(2, np.float32), 7.0)
    space = spaces.Dict(a=BOX, b=BOX)
    return TwoEntries(space, {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})


def test_an_env_made_anew_has_the_entries_of_the_pool(tmp_path):
    mark = tmp_path / "mark"
    with closing(PoolEnv(partial(make_one_or_two_entries, mark), 1, num_workers=1, respawn=True)) as env:
        root = env.reset().set("action", env.action_spec.rand())
        mark.touch()
        with pytest.raises(EnvFailure):
            env.call("end_process")
        env.step(root)
        env.set_seed(3)  # without a reset that would tell
        with pytest.raises(EnvFailure, match="expected 2 entries from the env, got 1"):
            env.step(root)
