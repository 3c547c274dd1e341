"""What vector envs know of their envs: attributes, pictures, limits; and copies of them."""

import contextlib
import copy
import pickle
import sys
import types
from functools import partial

import gymnasium
import numpy as np
import pytest
from cases import cases
from front_envs import Keyed, Locked, Shown, Talkative
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecVideoRecorder

from torchrl_pool import EnvFailure, PoolEnv, list_tasks, task_info
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

TASKS = list_tasks()


def make_locked():
    return Locked(gymnasium.make("CartPole-v1"))


@pytest.fixture
def close():
    with contextlib.ExitStack() as ends:
        yield lambda env: ends.enter_context(contextlib.closing(env))


def test_an_attribute_need_not_be_fetched(close):
    env = close(PoolVecEnv(make_locked, 2, num_workers=1))
    assert env.has_attr("action_masks")
    assert env.has_attr("lock")
    assert env.has_attr("gravity")
    assert not env.has_attr("no_such")
    assert [mask.tolist() for mask in env.env_method("action_masks")] == [[True, False]] * 2
    with pytest.raises(AttributeError, match="no_such"):
        env.env_method("no_such")
    task = close(PoolVecEnv("Pendulum-v1", 2))
    assert task.has_attr("g")
    assert task.has_attr("render")
    assert not task.has_attr("action_masks")


@pytest.mark.parametrize("mode", cases(["rgb_array", "ansi", None]))
@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_envs_show_is_theirs(mode, num_workers, close):
    make = partial(Shown, mode)
    ours, theirs = close(PoolVectorEnv(make, 2, num_workers=num_workers)), SyncVectorEnv([make] * 2)
    assert ours.render_mode == theirs.render_mode == mode
    assert ours.metadata == theirs.metadata
    for one in (ours, theirs):
        one.reset()
    if mode is not None:
        for actual, expected in zip(ours.render(), theirs.render(), strict=True):
            assert type(actual) is type(expected)
            assert np.array_equal(actual, expected)
    env, dummy = close(PoolVecEnv(make, 2, num_workers=num_workers)), DummyVecEnv([make] * 2)
    assert env.render_mode == dummy.render_mode == mode
    assert env.metadata == dummy.metadata
    assert env.get_attr("spec") == dummy.get_attr("spec")
    if mode == "rgb_array":
        env.reset()
        actual, expected = env.render(), dummy.render()
        assert actual.dtype == expected.dtype
        assert np.array_equal(actual, expected)


def test_another_render_mode_than_the_envs_is_refused():
    with pytest.raises(ValueError, match="expected 'ansi', which the envs were made with, got 'rgb_array'"):
        PoolVectorEnv(partial(Shown, "ansi"), 1, num_workers=0, render_mode="rgb_array")
    with contextlib.closing(
        PoolVectorEnv("gymnasium:CartPole-v1", 1, num_workers=0, render_mode="rgb_array")
    ) as e:
        e.reset()
        assert e.render()[0].shape == (400, 600, 3)


def test_attributes_without_a_render_mode(close):
    class Blind(Shown):
        def __init__(self):
            pass

        render_mode = property()  # raises AttributeError

    assert close(PoolVectorEnv(Blind, 1, num_workers=0)).render_mode is None
    with pytest.warns(UserWarning, match="render_mode"):
        assert close(PoolVecEnv(Blind, 1, num_workers=0)).render_mode is None


def test_what_tasks_know_of_themselves(close):
    env = close(PoolVecEnv("CartPole-v1", 2))
    assert env.get_attr("spec") == [gymnasium.spec("CartPole-v1")] * 2
    assert env.get_attr("metadata")[0]["render_fps"] == env.metadata["render_fps"] == 50


def test_videos_of_tasks_need_no_render_mode(close, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", types.ModuleType("moviepy"))  # for who records
    recorder = VecVideoRecorder(
        close(PoolVecEnv("CartPole-v1", 1)), str(tmp_path), lambda step: False, video_length=3
    )
    recorder.reset()
    assert recorder.venv.render().shape == (400, 600, 3)


# ---- limits


class Twice(gymnasium.Wrapper):
    """Each of its steps is two, unless the first one ends the episode."""

    def step(self, action):
        *_, terminated, truncated, _ = first = self.env.step(action)
        return first if terminated or truncated else self.env.step(action)


@pytest.mark.parametrize("watcher", cases([Monitor, RecordEpisodeStatistics]))
@pytest.mark.parametrize("within", cases([lambda env: env, Twice]))
def test_who_watches_an_env_sees_the_pools_limit(watcher, within, close):
    def make(limit=None):
        env = within(gymnasium.make("Pendulum-v1"))
        return watcher(env if limit is None else TimeLimit(env, limit))

    ours = close(PoolVecEnv(make, 2, num_workers=0, max_episode_steps=4))
    theirs = DummyVecEnv([partial(make, 4)] * 2)
    for one in (ours, theirs):
        one.seed(0)
        one.reset()
    for _ in range(9):
        (*arrays, infos), (*due, expected) = (env.step(np.ones((2, 1), np.float32)) for env in (ours, theirs))
        assert all(map(np.array_equal, arrays, due))
        for info, other in zip(infos, expected, strict=True):
            assert info.keys() == other.keys()
            assert info["TimeLimit.truncated"] == other["TimeLimit.truncated"]
            assert [info.get("episode", {}).get(k) for k in "rl"] == [
                other.get("episode", {}).get(k) for k in "rl"
            ]


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_who_watches_from_within_does_not_move_the_limit(num_workers, close):
    """Nobody asks for what it tells: else it is refused, for it would not hear of the limit."""

    def make():
        return Twice(Monitor(gymnasium.make("Pendulum-v1")))

    actions, limit = np.ones((1, 1), np.float32), {"num_workers": num_workers, "max_episode_steps": 4}
    env = close(PoolVectorEnv(make, 1, info_keys=[], autoreset_mode="SameStep", **limit))
    env.reset(seed=0)
    assert [step for step in range(1, 13) if env.step(actions)[3][0]] == [4, 8, 12]
    with pytest.raises((TypeError, EnvFailure), match="put Monitor around all other wrappers"):
        PoolVecEnv(make, 1, **limit)


@pytest.mark.parametrize(("limit", "other"), cases([(20, 9), (9, 20), (None, 9)]))
def test_a_state_holds_no_limit_of_its_pool(limit, other, close):
    def make():
        return Monitor(gymnasium.make("Pendulum-v1"))

    before, after = (
        close(PoolEnv(make, 1, num_workers=0, max_episode_steps=steps)) for steps in (limit, other)
    )
    root = before.reset()
    for _ in range(5):
        root = before.step_and_maybe_reset(before.rand_action(root))[1]
    after.reset()
    after.set_state(before.get_state())
    ends = []
    for _ in range(16):
        stepped, root = after.step_and_maybe_reset(after.rand_action(root))
        ends.append(stepped["next", "truncated"].item())
    assert ends.index(True) == other - 5 - 1


def test_evaluations_come_to_an_end(close):
    make = partial(gymnasium.make, "Pendulum-v1")
    env = close(PoolVecEnv(lambda: Monitor(make()), 1, num_workers=0, max_episode_steps=10))
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu").learn(32)
    assert [episode["l"] for episode in model.ep_info_buffer] == [10, 10, 10]
    rewards, lengths = evaluate_policy(model, env, n_eval_episodes=2, return_episode_rewards=True)
    assert lengths == [10, 10]
    assert len(rewards) == 2


# ---- what native envs tell of themselves


class Goals(gymnasium.Env):
    """A Python env that says how it pays."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def compute_reward(self, achieved, desired, info):
        assert len(info) == len(achieved)
        return -np.abs(achieved - desired).sum(-1)


def test_rewards_for_other_goals_of_python_envs(close):
    ours, theirs = close(PoolVecEnv(Goals, 2, num_workers=1)), DummyVecEnv([Goals] * 2)
    asked = (np.ones((5, 3)), np.arange(15).reshape(5, 3), [{"a": i} for i in range(5)])
    for one, due in zip(*(e.env_method("compute_reward", *asked) for e in (ours, theirs)), strict=True):
        assert np.array_equal(one, due)


@pytest.mark.skipif("FetchReach-v4" not in TASKS, reason="built without the family robotics")
@pytest.mark.parametrize("reward_type", cases(default=[None, "dense"], also=["sparse"]))
@pytest.mark.parametrize("task", cases(["FetchReach-v4", "FetchPushDense-v4", "PointMaze_UMaze-v3"]))
def test_rewards_for_other_goals_are_those_of_gymnasium_robotics(task, reward_type, close):
    """As Stable-Baselines3's HerReplayBuffer asks for them."""
    robotics = pytest.importorskip("gymnasium_robotics")
    gymnasium.register_envs(robotics)
    options = {} if reward_type is None else {"reward_type": reward_type}
    spec = gymnasium.spec(task)
    kind = gymnasium.envs.registration.load_env_creator(spec.entry_point)
    reference = object.__new__(kind)  # an assertion of Fetch's constructor fails on newer MuJoCo
    reference.reward_type = {"reward_type": "sparse", **spec.kwargs, **options}["reward_type"]
    reference.distance_threshold = 0.05
    env, envs = close(PoolVecEnv(task, 2, **options)), close(PoolVectorEnv(task, 2, **options))
    assert env.has_attr("compute_reward")
    draws = np.random.default_rng(0)
    for shape in [(40,), (4, 5), ()]:
        achieved, offset = draws.uniform(-0.5, 0.5, (2, *shape, 3 if task.startswith("Fetch") else 2))
        asked = (achieved, achieved + offset / 3, [{}] * 40)
        due = reference.compute_reward(*asked)
        for found in (
            *env.env_method("compute_reward", *asked, indices=[1]),
            *envs.call("compute_reward", *asked),
        ):
            assert type(found) is type(due)
            assert np.asarray(found).dtype == np.asarray(due).dtype
            assert np.asarray(found).tobytes() == np.asarray(due).tobytes()
    other = close(PoolVecEnv("CartPole-v1", 1))
    assert not other.has_attr("compute_reward")


@pytest.mark.parametrize(
    ("task", "options"),
    cases(
        [
            ("CartPole-v1", {}),
            ("CartPole-v1", {"max_episode_steps": 9, "sutton_barto_reward": True}),
            ("Pendulum-v1", {"g": 9.81, "render_mode": "rgb_array"}),
            ("FrozenLake-v1", {"is_slippery": False, "max_episode_steps": 12}),
        ]
    ),
)
def test_specs_are_those_of_what_the_pool_was_given(task, options, close):
    due = gymnasium.make(task, **options).spec
    for spec in close(PoolVectorEnv(task, 2, **options)).get_attr("spec"):
        assert (spec.id, spec.max_episode_steps, spec.kwargs) == (
            due.id,
            due.max_episode_steps,
            due.kwargs,
        )
        assert spec.reward_threshold == due.reward_threshold
        assert spec.make().spec.kwargs == due.kwargs
    own = close(PoolVectorEnv("Pendulum-v1", 2, env_options=[{"g": 1.0}, {"g": 2.0}])).get_attr("spec")
    assert [spec.kwargs for spec in own] == [{"g": 1.0}, {"g": 2.0}]
    assert gymnasium.spec("Pendulum-v1").kwargs == {}


def test_specs_of_families_whose_package_is_not_imported(close, monkeypatch):
    task = next(one for one in ("FetchReach-v4", "Ant-v5") if one in TASKS)
    info = task_info(task)
    monkeypatch.delitem(gymnasium.registry, task, raising=False)
    env = close(PoolVecEnv(task, 1, max_episode_steps=7, width=64))
    (spec,) = env.get_attr("spec")
    assert (spec.id, spec.max_episode_steps, spec.reward_threshold) == (task, 7, info.reward_threshold)
    assert spec.kwargs == {"width": 64}
    (spec,) = close(PoolVecEnv(task, 1)).get_attr("spec")
    assert spec.max_episode_steps == info.max_episode_steps


# ---- envs that are one


@pytest.mark.parametrize("wrap", cases([Monitor, lambda env: env, lambda env: TransformReward(env, abs)]))
def test_one_env_behind_two_wrappers_is_noticed(wrap):
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(EnvFailure, match="expected a new env from each call"):
        PoolVecEnv(lambda: wrap(env), 2, num_workers=0)


# ---- copies


@pytest.mark.parametrize(
    "copied", cases(default=[copy.deepcopy, copy.copy], also=[lambda env: pickle.loads(pickle.dumps(env))])
)
@pytest.mark.parametrize("task", ["gymnasium:CartPole-v1", "CartPole-v1"])
def test_copies_before_the_first_reset(copied, task, close):
    options = {"num_workers": 0} if task.startswith("gymnasium") else {}
    envs = close(
        PoolVectorEnv(task, 2, autoreset_mode=AutoresetMode.SAME_STEP, max_episode_steps=7, **options)
    )
    other = close(copied(envs))
    assert other.autoreset_mode is AutoresetMode.SAME_STEP
    assert np.array_equal(envs.reset(seed=1)[0], other.reset(seed=1)[0])
    for _ in range(9):
        for one, due in zip(envs.step([0, 1])[:4], other.step([0, 1])[:4], strict=True):
            assert np.array_equal(one, due)
    env = close(PoolVecEnv(task, 2, **options))
    env.seed(3)
    other = close(copied(env))
    assert np.array_equal(env.reset(), other.reset())


def test_copies_of_what_has_begun_are_refused(close):
    envs = close(PoolVectorEnv("CartPole-v1", 2))
    envs.reset()
    changed = close(PoolVecEnv(Talkative, 1, num_workers=0))
    changed.set_attr("length", 2)
    for one in (envs, changed):
        with pytest.raises(TypeError, match="before the first reset"):
            copy.deepcopy(one)


# ---- modes


def boxed(high):
    env = Keyed()
    env.observation_space = spaces.Box(0, high, (2,), np.float32)
    return env


def test_observation_modes_are_those_of_the_sync_vector_env(close):
    makes = [partial(boxed, high) for high in (1, 2, 3)]
    own = spaces.Box(0, 9, (3, 2), np.float32), spaces.Box(0, 9, (2,), np.float32)
    for mode in ("different", own):
        ours = close(PoolVectorEnv(makes, 3, num_workers=0, observation_mode=mode))
        theirs = SyncVectorEnv(makes, observation_mode=mode)
        assert ours.observation_space == theirs.observation_space
        assert ours.single_observation_space == theirs.single_observation_space
    with pytest.raises(RuntimeError, match="from env 1; 'different' allows other bounds"):
        PoolVectorEnv(makes, 3, num_workers=0)
    with pytest.raises(ValueError, match="observation_mode: expected 'same', 'different'"):
        PoolVectorEnv("CartPole-v1", 3, observation_mode="other")


def test_calls_in_two_parts(close):
    envs, others = close(PoolVectorEnv("CartPole-v1", 2)), close(PoolVectorEnv("CartPole-v1", 2))
    envs.reset_async(seed=3)
    for early in (envs.reset_async, lambda: envs.step([0, 0]), lambda: envs.step_async([0, 0]), envs.reset):
        with pytest.raises(gymnasium.error.AlreadyPendingCallError, match="expected reset_wait"):
            early()
    with pytest.raises(gymnasium.error.NoAsyncCallError, match="expected a call of step_async"):
        envs.step_wait()
    assert np.array_equal(envs.reset_wait()[0], others.reset(seed=3)[0])
    for _ in range(3):
        envs.step_async([0, 1])
        for one, due in zip(envs.step_wait()[:4], others.step([0, 1])[:4], strict=True):
            assert np.array_equal(one, due)
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        envs.reset_wait()


def test_one_env_of_a_task_is_refused_with_what_to_write():
    with pytest.raises(gymnasium.error.Error, match=r"make_vec\('torchrl_pool/CartPole-v1', num_envs=1\)"):
        gymnasium.make("torchrl_pool/CartPole-v1")
    with contextlib.closing(gymnasium.make_vec("torchrl_pool/CartPole-v1", num_envs=2)) as envs:
        assert type(envs) is PoolVectorEnv
