"""What Gymnasium tests of its vector envs, and Stable-Baselines3 of its own, asked of the pool's.

The same questions as in both projects' suites, in words of this one; where they ask for what only their own
classes have, such as ``envs``, ``copy`` or ``shared_memory``, the question is left out.
"""

import contextlib
from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

from torchrl_pool import EnvFailure
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

N = 3
SPACES = [
    spaces.Box(np.array(-1.0), np.array(1.0), dtype=np.float64),
    spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 2.0]), dtype=np.float64),
    spaces.Box(0, 255, (), np.uint8),
    spaces.Box(0, 255, (8, 8, 3), np.uint8),
    spaces.Discrete(2),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([11, 13, 17]),
    spaces.MultiBinary(19),
    spaces.Tuple([spaces.Discrete(3), spaces.Discrete(5)]),
    spaces.Tuple([spaces.Discrete(7), spaces.Box(-1, 1, (2,), np.float64)]),
    spaces.Dict(position=spaces.Discrete(23), velocity=spaces.Box(0, 1, (1,), np.float64)),
    spaces.Dict(
        position=spaces.Dict(x=spaces.Discrete(29), y=spaces.Discrete(31)),
        velocity=spaces.Tuple([spaces.Discrete(37), spaces.Box(0, 255, (), np.uint8)]),
    ),
]


class Sampler(gymnasium.Env):
    """Of one space for what it sees and does; lasts four steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 11}

    def __init__(self, space, render_mode="rgb_array"):
        self.observation_space = self.action_space = space
        self.render_mode, self.count, self.options = render_mode, 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count, self.options = 0, options
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        self.count += 1
        return self.observation_space.sample(), 0.25, False, self.count == 4, {}

    def render(self):
        return np.zeros((4, 4, 3))

    def product(self, first, second=1):
        return np.full((first, second), 1.0)


BOX = spaces.Box(0, 1, (2,), np.float32)


ALSO_ELSEWHERE = pytest.mark.parametrize("made", [0, 1], indirect=True)


@pytest.fixture
def made(request):
    """Makes and closes them, with envs in this process, or in as many others."""
    with contextlib.ExitStack() as ends:

        def make(cls, envs, num_envs=N, **options):
            one = cls(envs, num_envs, num_workers=getattr(request, "param", 0), **options)
            return ends.enter_context(contextlib.closing(one))

        yield make


# ---- Gymnasium


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_and_values(space, made):
    envs = made(PoolVectorEnv, partial(Sampler, space), autoreset_mode=AutoresetMode.SAME_STEP)
    assert envs.single_observation_space == envs.single_action_space == space
    assert envs.observation_space == envs.action_space == batch_space(space, N)
    observations, infos = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert infos == {}
    for t in range(1, 5):
        observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
        assert observations in envs.observation_space
        assert rewards.dtype == np.float64
        assert rewards.tolist() == [0.25] * N
        assert not terminations.any()
        assert truncations.all() == (t == 4)
    assert all(last in space for last in infos["final_obs"])


@ALSO_ELSEWHERE
@pytest.mark.parametrize("mode", AutoresetMode)
def test_equal_results_from_equal_seeds(mode, made):
    makes = [partial(gymnasium.make, "CartPole-v1")] * N
    ours, theirs = made(PoolVectorEnv, makes, autoreset_mode=mode), SyncVectorEnv(makes, autoreset_mode=mode)
    assert data_equivalence(ours.reset(seed=1), theirs.reset(seed=1), exact=True)
    ours.action_space.seed(1)
    for _ in range(30):
        actions = ours.action_space.sample()
        due = theirs.step(actions)
        assert data_equivalence(ours.step(actions), due, exact=True)
        ended = due[2] | due[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            both = [one.reset(options={"reset_mask": ended.copy()}) for one in (ours, theirs)]
            assert data_equivalence(*both, exact=True)


def test_seeds(made):
    envs = made(PoolVectorEnv, partial(gymnasium.make, "CartPole-v1"))
    envs.reset(seed=42)
    assert envs.np_random_seed == (42, 43, 44)
    assert len({generator.random() for generator in envs.np_random}) == N
    first = envs.reset(seed=[1, 2, 1])[0]
    assert np.array_equal(first[0], first[2])
    assert not np.array_equal(first[0], first[1])


def test_metadata_and_pictures(made):
    envs = made(PoolVectorEnv, partial(Sampler, BOX))
    assert envs.metadata == {**Sampler.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    assert Sampler.metadata == {"render_modes": ["rgb_array"], "render_fps": 11}
    assert envs.render_mode == "rgb_array"
    assert [picture.shape for picture in envs.render()] == [(4, 4, 3)] * N


@ALSO_ELSEWHERE
def test_calls_and_attributes(made):
    envs = made(PoolVectorEnv, partial(gymnasium.make, "CartPole-v1", render_mode="rgb_array"))
    envs.reset()
    assert {picture.shape for picture in envs.call("render")} == {(400, 600, 3)}
    assert envs.call("gravity") == envs.get_attr("gravity") == (9.8,) * N
    envs.set_attr("gravity", [9.81, 3.72, 8.87])
    assert envs.get_attr("gravity") == (9.81, 3.72, 8.87)
    envs.set_attr("gravity", 1.5)
    assert envs.get_attr("gravity") == (1.5,) * N
    with pytest.raises(ValueError, match="one per env"):
        envs.set_attr("gravity", [9.81, 3.72])


@pytest.mark.parametrize("wrong", [0, [0, 1], [0, 1, 0, 1]])
def test_actions_are_as_many_as_envs(wrong, made):
    envs = made(PoolVectorEnv, partial(gymnasium.make, "CartPole-v1"))
    envs.reset()
    with pytest.raises(ValueError, match="expected actions of shape"):
        envs.step(np.array(wrong))


def test_envs_of_unlike_spaces_are_refused(made):
    mixed = [partial(Sampler, space) for space in (BOX, spaces.Box(0, 1, (3,), np.float32), BOX)]
    with pytest.raises((EnvFailure, RuntimeError)):
        made(PoolVectorEnv, mixed).reset()


# ---- Stable-Baselines3

WRAPPERS = [lambda env: env, VecNormalize, partial(VecFrameStack, n_stack=2)]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_methods_and_attributes(wrap, made):
    env = wrap(made(PoolVecEnv, lambda: Monitor(Sampler(BOX))))
    env.seed(0)
    assert np.array_equal(env.render(), env.render(mode="rgb_array"))
    with pytest.warns(UserWarning, match="mode"):
        env.render(mode="no such")
    assert not env.has_attr("note")
    env.set_attr("note", 12)
    assert env.has_attr("note")
    assert env.get_attr("note") == [12] * N
    for i in range(N):
        env.set_attr("note", i, indices=i)
    assert env.get_attr("note") == [0, 1, 2]
    assert env.get_attr("note", indices=[0, -1]) == [0, 2]
    env.env_method("set_wrapper_attr", "count", 7, indices=[0, -1])
    assert env.get_attr("count") == [7, 0, 7]
    assert [one.shape for one in env.env_method("product", 1, indices=None, second=2)] == [(1, 2)] * N
    assert [one.shape for one in env.env_method("product", 2, indices=[0, 2])] == [(2, 1)] * 2


@ALSO_ELSEWHERE
def test_options(made):
    env = made(PoolVecEnv, lambda: Monitor(Sampler(BOX)))
    assert env.get_attr("options") == [None] * N
    for given in ({"hello": 1}, [{"other": 2}, {"hello": 1}, {"hello": 1}]):
        env.set_options(given)
        env.reset()
        assert env.get_attr("options") == (given if isinstance(given, list) else [given] * N)
        env.reset()
        assert env.get_attr("options") == [None] * N


class Steps(gymnasium.Env):
    """Shows the number of the step before, and ends after so many."""

    observation_space, action_space = spaces.Box(0, 999, (1,), np.int64), spaces.Discrete(2)

    def __init__(self, most):
        self.most = most

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.array([0]), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count - 1]), 0.0, False, self.count >= self.most, {}


@pytest.mark.parametrize("wrap", [lambda env: env, partial(VecFrameStack, n_stack=2)])
def test_terminal_observations(wrap, made):
    most = [5, 6, 7]
    env = wrap(made(PoolVecEnv, [partial(Steps, one) for one in most]))
    before = env.reset()
    for t in range(1, 8):
        observations, _, dones, infos = env.step(np.zeros(N, np.int64))
        for i, info in enumerate(infos):
            assert dones[i] == (t == most[i]) == ("terminal_observation" in info)
            if dones[i]:
                assert info["terminal_observation"][-1] == before[i][-1] + 1
                assert observations[i][-1] == 0
        before = observations
        if dones[2]:
            break


STABLE = [spaces.Discrete(2), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3), BOX]


@pytest.mark.parametrize(
    "space",
    [*STABLE, spaces.Dict(dict(zip("abcd", STABLE, strict=True))), spaces.Tuple(STABLE)],
    ids=str,
)
def test_observations_of_all_kinds_of_spaces(space, made):
    class Seen(Sampler):
        def __init__(self):
            super().__init__(space)
            self.action_space = BOX

    env, dummy = made(PoolVecEnv, Seen), DummyVecEnv([Seen] * N)
    assert env.observation_space == space
    actions = np.zeros((N, 2), np.float32)
    for _ in range(5):
        seen, due = (one.reset() if _ == 0 else one.step(actions)[0] for one in (env, dummy))
        assert type(seen) in (type(due), dict)
        for i in range(N):
            assert row(seen, i) in space


def row(seen, i):
    if isinstance(seen, dict):
        return {key: value[i] for key, value in seen.items()}
    return tuple(value[i] for value in seen) if isinstance(seen, tuple) else seen[i]


@ALSO_ELSEWHERE
def test_who_is_wrapped(made):
    makes = [partial(Sampler, BOX), lambda: Monitor(Sampler(BOX))]
    env = made(PoolVecEnv, makes, 2)
    assert env.env_is_wrapped(Monitor) == [False, True]
    assert VecFrameStack(env, n_stack=2).env_is_wrapped(Monitor) == [False, True]


def test_seeds_of_vec_envs(made):
    env = made(PoolVecEnv, partial(gymnasium.make, "Pendulum-v1"))
    env.seed(3)
    first = env.reset()
    env.seed(3)
    assert np.array_equal(env.reset(), first)
    VecNormalize(env).seed(3)
    assert np.array_equal(env.reset(), first)
    env.seed()
    first = env.reset()
    assert len(np.unique(first, axis=0)) == N


def test_episodes_by_who_watches_from_without(made):
    env = VecMonitor(made(PoolVecEnv, partial(gymnasium.make, "CartPole-v1")))
    env.reset()
    sums = np.zeros(N)
    for _ in range(40):
        _, rewards, dones, infos = env.step(np.ones(N, np.int64))
        sums += rewards
        for i in np.flatnonzero(dones):
            assert infos[i]["episode"]["r"] == infos[i]["episode"]["l"] == sums[i]
            sums[i] = 0
