"""PoolVectorEnv as a vector env: autoreset, masks, infos, attributes, and what it refuses."""

import contextlib
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from building import load_fault_plugin
from cases import cases
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from torchrl.envs import PendulumEnv

import torchrl_pool.gymnasium
from torchrl_pool import EnvFailure
from torchrl_pool.gymnasium import PoolVectorEnv

MODES = list(AutoresetMode)


class Counter(gymnasium.Env):
    """Counts from its seed to ``limit``; earns its action; tells the action and, at resets, that it began."""

    observation_space = spaces.Discrete(50)
    action_space = spaces.Discrete(5)
    limit = 3
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.count = (options or {}).get("start", seed or 0)
        return self.count, {"began": True}

    def step(self, action):
        self.count += 1
        return self.count, float(action), self.count == self.limit, False, {"given": {"action": int(action)}}

    def render(self):
        return np.full((2, 3, 3), self.count, np.uint8)


@pytest.fixture
def make():
    made = []

    def make(task="CartPole-v1", num_envs=3, **kwargs):
        made.append(PoolVectorEnv(task, num_envs, **kwargs))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


@pytest.fixture
def make_counters(make):
    def make_counters(mode=AutoresetMode.NEXT_STEP, info_keys=(), **kwargs):
        envs = make(Counter, num_workers=0, autoreset_mode=mode, info_keys=info_keys, **kwargs)
        envs.set_attr("limit", [2, 3, 3])
        return envs

    return make_counters


def step(envs, actions=(1, 2, 3)):
    observations, rewards, terminations, truncations, infos = envs.step(actions)
    assert not truncations.any()
    return observations.tolist(), rewards.tolist(), terminations.tolist(), infos


# ---- autoreset


@pytest.mark.parametrize("mode", cases(MODES))
def test_the_mode_is_an_object_or_its_value(mode, make):
    for given in (mode, mode.value):
        assert make(autoreset_mode=given).metadata["autoreset_mode"] is mode


def test_disabled(make_counters):
    envs = make_counters(AutoresetMode.DISABLED)
    envs.reset()
    step(envs)
    assert step(envs)[:3] == ([2, 2, 2], [1.0, 2.0, 3.0], [True, False, False])
    with pytest.raises(RuntimeError, match=r"episodes of envs \[0\] have ended"):
        envs.step([1, 2, 3])
    assert envs.reset(options={"reset_mask": np.array([True, False, False])})[0].tolist() == [0, 2, 2]
    assert step(envs)[:3] == ([1, 3, 3], [1.0, 2.0, 3.0], [False, True, True])
    assert envs.reset(options={"reset_mask": np.array([False, True, True])})[0].tolist() == [1, 0, 0]
    assert step(envs)[0] == [2, 1, 1]
    assert envs.reset()[0].tolist() == [0, 0, 0]
    assert step(envs)[0] == [1, 1, 1]


# ---- resets of some envs


def test_a_mask_with_seeds_and_options(make_counters):
    envs = make_counters()
    envs.reset(seed=10)
    mask = np.array([True, False, True])
    options = {"reset_mask": mask, "start": 30}
    assert envs.reset(seed=[1, 2, 3], options=options)[0].tolist() == [30, 11, 30]
    assert "reset_mask" in options
    assert envs.reset(seed=[1, 2, 3], options={"reset_mask": mask})[0].tolist() == [1, 11, 3]


def test_rows_left_out_are_the_envs_even_if_the_caller_has_changed_them(make):
    envs = make(autoreset_mode="Disabled")
    envs.reset(seed=0)
    observations = envs.step([0, 1, 0])[0]
    before = observations.copy()
    observations[:] = np.nan
    after = envs.reset(options={"reset_mask": np.array([True, False, False])})[0]
    assert np.array_equal(after[1:], before[1:])
    assert not np.array_equal(after[0], before[0])


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    cases(
        default=[
            ([True, True, True], TypeError, "expected an array"),
            (np.array([True]), ValueError, r"expected the shape \(3,\), got \(1,\)"),
            (np.array([1, 1, 0]), TypeError, "expected bools, got int64"),
            (np.zeros(3, np.bool_), ValueError, "at least one env"),
        ],
        also=[(np.array([[True] * 3]), ValueError, r"got \(1, 3\)")],
    ),
)
def test_masks_that_are_refused(mask, error, message, make_counters):
    envs = make_counters()
    envs.reset()
    step(envs)
    with pytest.raises(error, match=message):
        envs.reset(options={"reset_mask": mask})
    assert step(envs)[0] == [2, 2, 2]


# ---- infos


def test_infos_of_a_partial_reset(make):
    envs = make("FrozenLake-v1")
    envs.reset(seed=0)
    _, infos = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert infos["prob"].tolist() == [0, 1, 0]
    assert infos["_prob"].tolist() == [False, True, False]


def test_infos_that_every_task_has(make):
    envs = make(info_keys=["step_count", "episode_reward"])
    envs.reset(seed=0)
    envs.step([0, 1, 0])
    infos = envs.step([0, 1, 0])[4]
    assert infos["step_count"].tolist() == [2, 2, 2]
    assert infos["episode_reward"].shape == (3,)
    assert set(infos) == {"step_count", "_step_count", "episode_reward", "_episode_reward"}


# ---- what is given and taken


def test_an_env_that_begins_an_episode_earns_nothing_and_the_others_what_they_earn(make):
    # A task whose rewards are doubles, of which there is one column.
    envs = make("dm_control/cartpole-balance-v0", num_envs=2, max_episode_steps=3)
    actions = np.zeros(envs.action_space.shape)
    envs.reset(seed=0)
    envs.step(actions)
    envs.reset(options={"reset_mask": np.array([True, False])})
    earned = np.stack([envs.step(actions)[1] for _ in range(5)])
    assert (earned > 0.5).tolist() == [[True] * 2, [True] * 2, [True, False], [False, True], [True] * 2]
    assert earned[2, 1] == earned[3, 0] == 0


@pytest.mark.parametrize("mode", cases(MODES))
def test_what_a_call_returns_is_the_callers(mode, make):
    envs, alone = make(autoreset_mode=mode), make(autoreset_mode=mode)
    kept = []
    for one in (envs, alone):
        one.reset(seed=1)
    for _ in range(8):
        results, due = envs.step([0, 0, 0]), alone.step([0, 0, 0])
        kept.append((results[0], due[0].copy()))
        for array in results[1:4]:
            array[...] = 1
        if mode is AutoresetMode.DISABLED and (due[2] | due[3]).any():
            break
        assert np.array_equal(results[0], due[0])
    assert all(np.array_equal(one, other) for one, other in kept)


def test_actions_in_many_forms(make):
    envs, others = make(num_envs=4), make(num_envs=4)
    envs.reset(seed=0)
    others.reset(seed=0)
    for actions in (
        [0, 1, 1, 0],
        (0, 1, 1, 0),
        np.array([0, 1, 1, 0], np.uint8),
        np.array([0, 9, 1, 9, 1, 9, 0, 9])[::2],
    ):
        assert np.array_equal(envs.step(actions)[0], others.step(np.array([0, 1, 1, 0]))[0])


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    cases(
        default=[
            ([0.0, 1.0, 0.0], TypeError, "expected actions of dtype int64, got float64"),
            ([0, 2, 0], ValueError, "env 1"),
        ],
        also=[
            ([0, 1], ValueError, r"expected actions of shape \(3,\), got \(2,\)"),
            ([[0, 1, 0]], ValueError, r"got \(1, 3\)"),
            (
                np.array([0, 1, 2**64 - 1], np.uint64),
                ValueError,
                "expected numbers that fit int64, got 18446744073709551615",
            ),
        ],
    ),
)
def test_actions_that_are_refused(actions, error, message, make):
    envs, others = make(), make()
    envs.reset(seed=0)
    others.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.step(actions)
    assert np.array_equal(envs.step([0, 1, 0])[0], others.step([0, 1, 0])[0])


def test_refused_actions_begin_no_episodes(make):
    envs, others = make(max_episode_steps=5), make(max_episode_steps=5)
    for each in (envs, others):
        each.reset(seed=0)
        each.step([0, 1, 0])
        each.reset(options={"reset_mask": np.array([True, False, False])})
        for _ in range(4):
            terminated, truncated = each.step([0, 1, 0])[2:4]
        assert (terminated | truncated).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="env 0"):
        envs.step([2, 0, 0])
    for _ in range(2):
        assert np.array_equal(envs.step([0, 1, 0])[0], others.step([0, 1, 0])[0])


def test_envs_of_several_rewards_are_refused(make):
    class Vectors(Counter):
        reward_space = spaces.Box(-1, 1, (2,))

        def step(self, action):
            return 0, np.zeros(2), False, False, {}

    with pytest.raises(TypeError, match=r"Vectors.*: expected one reward for each env$"):
        make(Vectors, num_workers=0)


class Nested(gymnasium.Env):
    """Gives back its action; its spaces have everything that tensors can hold."""

    action_space = spaces.Dict(
        a=spaces.Box(-1, 1, (2,), np.float32),
        b=spaces.Tuple([spaces.Discrete(3, start=5), spaces.Discrete(4)]),
        c=spaces.Tuple([spaces.Box(-1, 1, (), np.float32), spaces.MultiBinary(3)]),
        d=spaces.MultiDiscrete([3, 4], start=[1, 0]),
        e=spaces.Dict(f=spaces.Box(0, 255, (2, 2), np.uint8)),
        g=spaces.Discrete(3, dtype=np.int8),
        h=spaces.MultiDiscrete([3, 4], dtype=np.int32),
    )
    observation_space = spaces.Dict(seen=action_space)

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        return {"seen": action}, 0.1, False, False, {}


def test_nested_spaces(make):
    envs = make(Nested, num_workers=1)
    assert envs.observation_space == batch_space(Nested.observation_space, 3)
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    envs.action_space.seed(0)
    for _ in range(3):
        actions = envs.action_space.sample()
        observations, rewards, *_ = envs.step(actions)
        assert observations in envs.observation_space
        assert data_equivalence(observations["seen"], actions)
        assert rewards.tolist() == [0.1] * 3  # not what float32 makes of it


def test_many_tasks_in_one(make):
    envs = make(["ALE/Pong-v5", "ALE/Breakout-v5"], 2, full_action_space=True)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (2, 4, 84, 84)
    assert envs.step([17, 0])[4]["lives"].tolist() == [0, 5]


# ---- attributes, pictures, ends


def test_attributes_of_tasks_are_their_options(make):
    envs = make("Pendulum-v1", env_options=[{"g": 9.0}, {}, {"g": 1.5}])
    assert envs.get_attr("g") == envs.call("g") == (9.0, 10.0, 1.5)
    assert envs.get_attr("render_mode") == (None, None, None)
    with pytest.raises(AttributeError, match="'gravity': expected an option of the native task"):
        envs.get_attr("gravity")
    with pytest.raises(AttributeError, match="cannot be set; pass its options"):
        envs.set_attr("g", 3.0)


def test_attributes_of_python_envs(make_counters):
    envs = make_counters()
    assert envs.get_attr("limit") == envs.call("limit") == (2, 3, 3)
    envs.set_attr("limit", 7)
    assert envs.get_attr("limit") == (7, 7, 7)
    with pytest.raises(ValueError, match="one per env"):
        envs.set_attr("limit", [1, 2])
    envs.reset()
    assert [frame.max() for frame in envs.call("render")] == [0, 0, 0]


def test_pictures(make):
    envs = make(render_mode="rgb_array")
    assert envs.render_mode == "rgb_array"
    envs.reset(seed=0)
    frames = envs.render()
    assert len(frames) == 3
    assert {frame.shape for frame in frames} == {(400, 600, 3)}
    assert make().render_mode is None
    with pytest.raises(ValueError, match="expected 'rgb_array' or None"):
        make(render_mode="human")


def test_frames_per_second_are_gymnasiums(make):
    for task in ("CartPole-v1", "HalfCheetah-v5"):
        own = gymnasium.make(task).metadata["render_fps"]
        assert make(task, render_mode="rgb_array").metadata["render_fps"] == own

    class Slow(Counter):
        def __init__(self):
            self.metadata = {"render_modes": ["rgb_array"], "render_fps": 3}

    assert make(Slow, num_workers=0).metadata["render_fps"] == 3


def test_seeds_that_were_given(make, make_counters):
    envs = make()
    envs.reset()
    assert envs.np_random_seed == (-1, -1, -1)
    envs.reset(seed=5)
    envs.reset(seed=[1, None, 3], options={"reset_mask": np.array([True, True, False])})
    assert envs.np_random_seed == (1, 6, 7)
    with pytest.raises(AttributeError, match="np_random"):
        _ = envs.np_random
    assert len(make_counters().np_random) == 3


def test_use_after_close(make):
    envs = make()
    envs.reset()
    envs.close()
    envs.close()
    assert envs.closed
    for call in (envs.reset, envs.render, lambda: envs.step([0, 0, 0])):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            call()


@pytest.mark.parametrize("option", cases(["device", "pin_memory", "seed", "categorical_action_encoding"]))
def test_options_that_mean_nothing_here(option):
    with pytest.raises(TypeError, match=option):
        PoolVectorEnv("CartPole-v1", 2, **{option: None})


class Fails(Counter):
    def step(self, action):
        if action == 4:
            raise ValueError("broken")
        return super().step(action)


@pytest.mark.parametrize("mode", cases(MODES))
def test_an_env_that_fails_is_revived_by_a_mask(mode, make):
    envs = make(Fails, num_workers=0, autoreset_mode=mode)
    envs.reset()
    with pytest.raises(EnvFailure, match="broken") as caught:
        envs.step([1, 4, 1])
    failed = np.zeros(3, np.bool_)
    failed[caught.value.env_index] = True
    assert failed.tolist() == [False, True, False]
    assert envs.reset(options={"reset_mask": failed})[0].tolist() == [1, 0, 1]
    assert envs.step([1, 1, 1])[0].tolist() == [2, 1, 2]


def test_an_env_that_hangs_begins_no_episode_by_itself(make):
    load_fault_plugin()
    options = [{}, {"fault": "sleep", "at": 2, "seconds": 2.0}]
    envs = make("Fault-v0", 2, env_options=options, max_episode_steps=2, step_timeout=1.0)
    actions = np.zeros(envs.action_space.shape, np.float32)
    envs.reset(seed=0)
    envs.step(actions)
    with pytest.raises(EnvFailure) as caught:
        envs.step(actions)
    assert caught.value.hung == [1]
    time.sleep(2)  # its call returns, and writes that the limit has ended the episode
    with pytest.raises(RuntimeError, match="env 1 has failed and must be reset"):
        envs.step(actions)


def test_episodes_that_begin_where_another_env_fails(make):
    envs = make(Fails, num_workers=0, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.set_attr("limit", [1, 9, 9])
    envs.reset(seed=[0, 5, 7])
    with pytest.raises(EnvFailure, match="broken"):
        envs.step([1, 4, 1])
    failed = np.array([False, True, False])
    assert envs.reset(options={"reset_mask": failed})[0].tolist() == [0, 0, 8]


class Unready(Fails):
    def reset(self, *, seed=None, options=None):
        if self.limit == 1 and getattr(self, "count", 0):
            raise ValueError("not ready")
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("num_workers", cases([0, 2]))
def test_one_call_tells_of_steps_and_of_resets_that_fail(num_workers, make):
    envs = make(Unready, 4, num_workers=num_workers)
    envs.set_attr("limit", [1, 1, 9, 9])
    envs.reset()
    envs.step([1, 1, 1, 1])
    envs.set_attr("limit", [1, 9, 9, 9])
    with pytest.raises(EnvFailure, match=r"env 0 .* failed in a reset: ValueError: not ready") as caught:
        envs.step([4, 4, 4, 1])
    assert (caught.value.env_index, caught.value.steps) == ([0, 2], [0, 2])
    assert [message.splitlines()[0] for message in caught.value.messages] == [
        "ValueError: not ready",
        "ValueError: broken",
    ]
    envs.set_attr("limit", 9)
    envs.reset(options={"reset_mask": np.array([True, False, True, False])})
    assert envs.step([1, 1, 1, 1])[0].tolist() == [1, 1, 1, 3]


def test_a_step_says_how_envs_were_lost_while_another_one_begins(make):
    envs = make(Counter, 4, num_workers=2)
    envs.set_attr("limit", [1, 9, 9, 9])
    envs.reset()
    envs.step([1, 1, 1, 1])
    worker = envs._pool.env._source.workers._workers[1]
    worker.kill()
    assert worker.wait(20)
    with pytest.raises(
        EnvFailure, match=r"env 2 .* failed in step 2: .*its worker process was killed by signal 9"
    ) as caught:
        envs.step([4, 1, 1, 1])
    assert caught.value.env_index == [2, 3]
    assert envs.reset(options={"reset_mask": np.array([False, False, True, True])})[0].tolist() == [
        0,
        2,
        0,
        0,
    ]


# ---- under Gymnasium's wrappers


def test_wrappers_of_vector_envs(make):
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(make(max_episode_steps=3))
    envs = gymnasium.wrappers.vector.NormalizeObservation(gymnasium.wrappers.vector.DictInfoToList(envs).env)
    envs.reset(seed=0)
    infos = [envs.step([0, 1, 0])[4] for _ in range(3)]
    assert infos[2]["episode"]["l"].tolist() == [3, 3, 3]
    assert torchrl_pool.gymnasium.PoolVectorEnv is type(envs.unwrapped)


def test_an_env_that_cannot_be_made_says_why():
    def make(fails):
        if fails:
            raise OSError("the licence server is down")
        return gymnasium.make("CartPole-v1")

    with pytest.raises(EnvFailure, match=r"env 1 .* the licence server is down") as caught:
        PoolVectorEnv([partial(make, False), partial(make, True)], 2, num_workers=1)
    assert caught.value.env_index == [1]


def test_attributes_that_envs_of_python_lack():
    with contextlib.closing(PoolVectorEnv("gymnasium:CartPole-v1", 2, num_workers=1)) as envs:
        with pytest.raises(AttributeError, match="no_such"):
            envs.get_attr("no_such")
        with pytest.raises(AttributeError, match="no_such"):
            envs.call("no_such")


def test_envs_of_torchrl_have_no_spaces():
    with pytest.raises(TypeError, match="expected envs of Gymnasium, with spaces"):
        PoolVectorEnv(PendulumEnv, 2, num_workers=1)
