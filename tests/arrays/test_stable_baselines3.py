"""PoolVecEnv against Stable-Baselines3's DummyVecEnv, and under its algorithms."""

from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from comparing import assert_same
from gymnasium import spaces
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformObservation, TransformReward
from processes import printed
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

from torchrl_pool.stable_baselines3 import PoolVecEnv

N = 4
TASKS = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", "Hopper-v5", "LunarLander-v3"]


@pytest.fixture
def make():
    made = []

    def make(task="CartPole-v1", num_envs=N, **kwargs):
        made.append(PoolVecEnv(task, num_envs, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def dummy(task, limit=None, num_envs=N, wrap=lambda env: env):
    return DummyVecEnv([lambda: wrap(gymnasium.make(task, max_episode_steps=limit))] * num_envs)


def test_stable_baselines_makes_it_of_callables_alone():
    """As ``make_vec_env``, ``make_atari_env`` and the Zoo do."""
    envs = [make_vec_env("CartPole-v1", 3, seed=5, vec_env_cls=kind) for kind in (PoolVecEnv, DummyVecEnv)]
    try:
        ours, theirs = (env.reset() for env in envs)
        assert envs[0].num_envs == 3
        np.testing.assert_array_equal(ours, theirs)
    finally:
        for env in envs:
            env.close()


@pytest.mark.parametrize("task", cases(default=["Pendulum-v1", "FrozenLake-v1"], also=TASKS))
def test_all_results_are_those_of_dummy_vec_env(task, make):
    env, reference = make(task, max_episode_steps=15, info_keys=None), dummy(task, 15)
    assert env.observation_space == reference.observation_space
    assert env.action_space == reference.action_space
    env.action_space.seed(0)
    assert env.seed(5) == reference.seed(5)
    assert_same(env.reset(), reference.reset())
    ended = 0
    for t in range(40):
        actions = np.stack([env.action_space.sample() for _ in range(N)])
        got, due = env.step(actions), reference.step(actions)
        for one, other in zip(got[:3], due[:3], strict=True):
            assert_same(one, other)
        for i, (info, expected) in enumerate(zip(got[3], due[3], strict=True)):
            assert set(info) == set(expected), f"env {i}, step {t}"
            for key, value in expected.items():
                assert np.array_equal(info[key], value), f"{key} of env {i}, step {t}"
                assert type(info[key]) is type(value) or key in env._pool.infos or "obs" in key
        ended += due[2].sum()
        if t == 20:
            assert_same(env.reset(), reference.reset())
    assert ended >= N


def test_options_of_resets_hold_once(make):
    env, reference = make(), dummy("CartPole-v1")
    for one in (env, reference):
        one.seed(0)
        one.set_options({"low": -0.2, "high": -0.1})
    first = env.reset()
    assert_same(first, reference.reset())
    assert (first < -0.09).all()
    assert_same(env.reset(), reference.reset())


def learn(env, frames=512):
    torch.manual_seed(0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=2, seed=3, device="cpu")
    model.learn(frames)
    episodes = [(episode["r"], episode["l"]) for episode in model.ep_info_buffer]
    return model.policy.state_dict(), episodes


@pytest.mark.parametrize("task", cases(["CartPole-v1", "Pendulum-v1"]))
def test_ppo_learns_exactly_what_it_learns_with_dummy_vec_env(task, make):
    weights, episodes = learn(VecMonitor(make(task, max_episode_steps=40)))
    expected, due = learn(dummy(task, 40, wrap=Monitor))
    assert len(due) > 5
    assert np.allclose(np.array(episodes), np.array(due), rtol=1e-5)  # VecMonitor adds up float32
    for name, tensor in expected.items():
        assert torch.equal(weights[name], tensor), name


def test_wrappers(make):
    env = VecFrameStack(VecNormalize(make("Pendulum-v1", max_episode_steps=5)), 2)
    assert env.reset().shape == (N, 6)
    infos = [env.step(np.zeros((N, 1), np.float32))[3] for _ in range(5)]
    assert all(info["TimeLimit.truncated"] for info in infos[4])
    assert infos[4][0]["terminal_observation"].shape == (6,)


def test_attributes_and_methods(make):
    env = make("Pendulum-v1", env_options=[{"g": float(i)} for i in range(N)], render_mode="rgb_array")
    assert env.get_attr("g") == [0.0, 1.0, 2.0, 3.0]
    assert env.get_attr("g", indices=[2, 1]) == [2.0, 1.0]
    assert env.has_attr("g")
    assert not env.has_attr("gravity")
    assert env.env_is_wrapped(Monitor, indices=0) == [False]
    with pytest.raises(AttributeError, match="cannot be set; pass its options"):
        env.set_attr("g", 1.0)
    env.reset()
    assert env.env_method("render", indices=1)[0].shape == (500, 500, 3)
    assert env.render().shape == (1000, 1000, 3)
    assert env.metadata["render_fps"] == gymnasium.make("Pendulum-v1").metadata["render_fps"]


def test_envs_of_python(make):
    env = make(lambda: gymnasium.make("CartPole-v1"), num_workers=1)
    reference = dummy("CartPole-v1")
    for one in (env, reference):
        one.seed(1)
        one.set_attr("note", [1, 2], indices=[0, 2])
    assert env.get_attr("note", indices=[0, 2]) == reference.get_attr("note", indices=[0, 2]) == [[1, 2]] * 2
    assert env.env_method("has_wrapper_attr", "note", indices=[0, 1]) == [True, False]
    assert_same(env.reset(), reference.reset())
    for _ in range(15):
        actions = np.ones(N, np.int64)
        for one, other in zip(env.step(actions)[:3], reference.step(actions)[:3], strict=True):
            assert_same(one, other)


class MountedMonitor(Monitor):
    """Of a class of its own."""


WATCHED = {
    "Monitor": lambda env: Monitor(env),
    "within": lambda env: TransformReward(TimeLimit(Monitor(env), 500), lambda reward: reward / 10),
    "of its kind": lambda env: MountedMonitor(env),
    "Gymnasium's": lambda env: RecordEpisodeStatistics(env),
    "blind": lambda env: TimeLimit(Monitor(env), 5),  # most episodes end without its knowing
    "nobody": lambda env: env,
}


@pytest.mark.parametrize("watched", WATCHED)
@pytest.mark.parametrize("info_keys", cases(default=[(), None], also=[("episode_reward",)]))
def test_who_watches_envs_of_python_is_heard(watched, info_keys, make):
    def make_env():
        return WATCHED[watched](gymnasium.make("CartPole-v1"))

    env, reference = make(make_env, num_workers=1, info_keys=info_keys), DummyVecEnv([make_env] * N)
    for kind in Monitor, MountedMonitor, TimeLimit, VecMonitor:
        assert env.env_is_wrapped(kind) == reference.env_is_wrapped(kind)
    for one in (env, reference):
        one.seed(2)
        one.reset()
    ended = 0
    for t in range(60):
        actions = np.full(N, int(t % 3 > 0))
        infos, expected = env.step(actions)[3], reference.step(actions)[3]
        for ours, theirs in zip(infos, expected, strict=True):
            wished = set(info_keys or ())
            assert set(ours) - wished == set(theirs)
            assert wished <= set(ours)
            if "episode" in theirs:
                ended += 1
                assert ours["episode"].keys() == theirs["episode"].keys()
                assert [ours["episode"][key] for key in "rl"] == [theirs["episode"][key] for key in "rl"]
    assert ended or watched in ("blind", "nobody")


class Wins(gymnasium.Wrapper):
    def step(self, action):
        *step, info = self.env.step(action)
        return (*step, {**info, "is_success": np.True_})


class Lives(gymnasium.Wrapper):
    """Ends after every fourth step, and goes on after that as long as what it wraps does."""

    count, is_over = 0, True

    def reset(self, **arguments):
        if self.is_over:
            self.last = self.env.reset(**arguments)
        self.is_over = False
        return self.last

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.last, self.is_over = (observation, info), terminated
        self.count += 1
        return observation, reward, terminated or self.count % 4 == 0, truncated, info


def own_monitor(env):
    class Monitor(gymnasium.Wrapper):
        """Tells something else of an episode."""

        def step(self, action):
            *step, info = self.env.step(action)
            return (*step, {**info, "episode": "over"} if step[2] else info)

    return Monitor(env)


def with_dict(env):
    space = spaces.Dict(state=env.observation_space, episode=env.observation_space)
    return TransformObservation(env, lambda seen: {"state": seen, "episode": seen}, space)


TOLD = {
    "keywords": [lambda env: Monitor(Wins(env), info_keywords=("is_success",))],
    "lives": [lambda env: Lives(Monitor(env))],
    "own": [own_monitor],
    "vectors": [
        lambda env: TransformReward(RecordEpisodeStatistics(TransformReward(env, np.atleast_1d)), np.sum)
    ],
    "name of an entry": [lambda env: with_dict(Monitor(env))],
    "some": [Monitor, lambda env: env],
    "others": [lambda env: env, Monitor],
}


@pytest.mark.parametrize("kind", cases(default=["vectors", "some"], also=TOLD))
def test_whatever_is_told_of_an_episode_is_passed_on(kind, make):
    def made(wrap):
        return wrap(gymnasium.make("CartPole-v1"))

    envs = [partial(made, TOLD[kind][i % len(TOLD[kind])]) for i in range(N)]
    env, reference = make(envs, num_workers=1), DummyVecEnv(envs)
    told = 0
    for one in (env, reference):
        one.seed(3)
        one.reset()
    for t in range(60):
        actions = np.full(N, int(t % 3 > 0))
        infos, expected = env.step(actions)[3], reference.step(actions)[3]
        for ours, theirs in zip(infos, expected, strict=True):
            ours, theirs = ours.get("episode"), theirs.get("episode")
            if isinstance(theirs, dict):
                told += 1
                del ours["t"], theirs["t"]
            told += theirs == "over"
            np.testing.assert_equal(ours, theirs)
    assert told


def test_evaluations_are_those_of_dummy_vec_env(make):
    def make_env():
        return TransformReward(Monitor(gymnasium.make("CartPole-v1")), lambda reward: reward / 10)

    figures = []
    for env in (make(make_env, num_workers=1), DummyVecEnv([make_env] * N)):
        env.seed(0)
        model = PPO("MlpPolicy", env, n_steps=32, seed=0, device="cpu")
        model.learn(256)
        env.seed(7)
        episodes = [(one["r"], one["l"]) for one in model.ep_info_buffer]
        figures.append(
            (episodes, evaluate_policy(model, env, n_eval_episodes=5, return_episode_rewards=True))
        )
    assert figures[0] == figures[1]
    assert figures[0][0]


def test_steps_are_the_callers(make):
    env = make()
    env.seed(0)
    first = env.reset()
    kept = first.copy()
    for _ in range(3):
        env.step(np.ones(N, np.int64))
    assert np.array_equal(first, kept)


def test_stable_baselines3_is_needed_here_only():
    program = (
        "import sys; sys.modules['stable_baselines3'] = None\n"
        "import torchrl_pool.gymnasium\n"
        "try:\n    import torchrl_pool.stable_baselines3\nexcept ImportError as error:\n    print(error)\n"
    )
    expected = "torchrl_pool.stable_baselines3 needs Stable-Baselines3: pip install stable-baselines3\n"
    assert printed(program) == expected


# ---- what Stable-Baselines3 asks of its own

BOX = spaces.Box(0, 1, (2,), np.float32)


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


WRAPPERS = [lambda env: env, VecNormalize, partial(VecFrameStack, n_stack=2)]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_methods_and_attributes(wrap, make):
    env = wrap(make(lambda: Monitor(Sampler(BOX)), 3, num_workers=0))
    env.seed(0)
    assert np.array_equal(env.render(), env.render(mode="rgb_array"))
    with pytest.warns(UserWarning, match="mode"):
        env.render(mode="no such")
    assert not env.has_attr("note")
    env.set_attr("note", 12)
    assert env.has_attr("note")
    assert env.get_attr("note") == [12] * 3
    for i in range(3):
        env.set_attr("note", i, indices=i)
    assert env.get_attr("note") == [0, 1, 2]
    assert env.get_attr("note", indices=[0, -1]) == [0, 2]
    env.env_method("set_wrapper_attr", "count", 7, indices=[0, -1])
    assert env.get_attr("count") == [7, 0, 7]
    assert [one.shape for one in env.env_method("product", 1, indices=None, second=2)] == [(1, 2)] * 3
    assert [one.shape for one in env.env_method("product", 2, indices=[0, 2])] == [(2, 1)] * 2


def test_options(make):
    env = make(lambda: Monitor(Sampler(BOX)), 3, num_workers=0)
    assert env.get_attr("options") == [None] * 3
    for given in ({"hello": 1}, [{"other": 2}, {"hello": 1}, {"hello": 1}]):
        env.set_options(given)
        env.reset()
        assert env.get_attr("options") == (given if isinstance(given, list) else [given] * 3)
        env.reset()
        assert env.get_attr("options") == [None] * 3


STABLE = [spaces.Discrete(2), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3), BOX]


@pytest.mark.parametrize(
    "space",
    cases([*STABLE, spaces.Dict(dict(zip("abcd", STABLE, strict=True))), spaces.Tuple(STABLE)]),
    ids=str,
)
def test_observations_of_all_kinds_of_spaces(space, make):
    class Seen(Sampler):
        def __init__(self):
            super().__init__(space)
            self.action_space = BOX

    env, dummy = make(Seen, 3, num_workers=0), DummyVecEnv([Seen] * 3)
    assert env.observation_space == space
    actions = np.zeros((3, 2), np.float32)
    for _ in range(5):
        seen, due = (one.reset() if _ == 0 else one.step(actions)[0] for one in (env, dummy))
        assert type(seen) in (type(due), dict)
        for i in range(3):
            assert row(seen, i) in space


def row(seen, i):
    if isinstance(seen, dict):
        return {key: value[i] for key, value in seen.items()}
    return tuple(value[i] for value in seen) if isinstance(seen, tuple) else seen[i]
