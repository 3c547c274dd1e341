"""Tasks with other than one observation and one action: specs and values as TorchRL has them."""

import contextlib
import re

import gymnasium
import numpy as np
import pytest
import torch
from building import build_plugin
from cases import cases
from comparing import assert_steps_equal
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv
from torchrl.data import Categorical, MultiCategorical, MultiOneHot, OneHot
from torchrl.envs import GymWrapper, RewardSum, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv, load_plugin
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv
from torchrl_pool.testing import assert_same_trajectories, check_plugin

N = 3
INF = np.inf


@pytest.fixture(scope="module", autouse=True)
def _plugin():
    load_plugin(build_plugin("spaces"))


class Twin(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.random, self.steps = self.np_random.random(), 0
        return self.observe(None), {}

    def step(self, action):
        self.steps += 1
        return self.observe(action), self.random, self.steps == 7, False, {}


class DictTwin(Twin):
    observation_space = spaces.Dict(
        position=spaces.Box(-INF, INF, (2,), np.float64),
        sensors=spaces.Dict(
            range=spaces.Box(0, 30, (3,)),
            touch=spaces.MultiBinary(2),
            deep=spaces.Dict(mode=spaces.Discrete(3)),
        ),
        goal=spaces.MultiDiscrete([3, 5]),
        pair=spaces.MultiDiscrete([4, 4]),
    )

    def observe(self, action):
        t = self.steps
        return {
            "position": np.array([self.random, self.random + t]),
            "sensors": {
                "range": np.array([t, 2 * t, 3 * t], np.float32),
                "touch": np.array([t % 2, 1], np.int8),
                "deep": {"mode": t % 3},
            },
            "goal": np.array([t % 3, t % 5]),
            "pair": np.array([t % 4, 3 - t % 4]),
        }


class MixedTwin(Twin):
    observation_space = spaces.Box(-INF, INF, (10,), np.float64)
    action_space = spaces.Dict(
        move=spaces.Discrete(4),
        gear=spaces.Dict(level=spaces.MultiDiscrete([3, 5]), lights=spaces.MultiBinary(3)),
        pair=spaces.MultiDiscrete([6, 6]),
        force=spaces.Box(-1, 1, (2,)),
    )

    def observe(self, action):
        if action is None:
            return np.full(10, self.random)
        gear = action["gear"]
        parts = [
            np.atleast_1d(action["move"]),
            gear["level"],
            gear["lights"],
            action["pair"],
            action["force"],
        ]
        return np.concatenate(parts).astype(np.float64)


class RareTwin(Twin):
    observation_space = spaces.Dict(
        half=spaces.Box(-INF, INF, (2,), np.float16),
        uint16=spaces.Box(0, 2**16 - 1, (2,), np.uint16),
        uint32=spaces.Box(0, 2**32 - 1, (2,), np.uint32),
        uint64=spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    )
    action_space = spaces.Dict(
        force=spaces.Box(-1, 1, (1,), np.float16), level=spaces.Box(0, 60000, (1,), np.uint16)
    )

    def observe(self, action):
        drawn = int(self.random * 2**53) << 11 | self.steps
        force, level = self.random, drawn >> 48
        if action is not None:
            force, level = action["force"][0], action["level"][0]
        return {
            "half": np.array([self.random, force], np.float16),
            "uint16": np.array([drawn >> 48, level], np.uint16),
            "uint32": np.array([drawn >> 32] * 2, np.uint32),
            "uint64": np.array([drawn] * 2, np.uint64),
        }


class PicturesTwin(Twin):
    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (4, 6, 3), np.uint8),
        stack=spaces.Box(0, 255, (2, 4, 6), np.uint8),
        depth=spaces.Box(0, 100, (4, 6)),
    )

    def observe(self, action):
        return {
            "camera": ((self.steps * 40 + np.arange(72)) % 256).astype(np.uint8).reshape(4, 6, 3),
            "stack": ((self.steps + 5 * np.arange(48)) % 256).astype(np.uint8).reshape(2, 4, 6),
            "depth": (np.arange(24) + self.random).astype(np.float32).reshape(4, 6),
        }


TWINS = {"Dict-v0": DictTwin, "Mixed-v0": MixedTwin, "Pictures-v0": PicturesTwin}
WITH_RARE = {**TWINS, "Rare-v0": RareTwin}  # whose unsigned integers TorchRL's own checks cannot compare


@pytest.mark.slow  # all tasks of the plugin
@pytest.mark.parametrize("task", [*TWINS, "Agents-v0", "Restless-v0", "Scalar-v0"])
def test_keeps_the_contract(task):
    assert "states" in check_plugin(task)


@pytest.mark.parametrize("task", cases(default=["Dict-v0", "Mixed-v0", "Pictures-v0"], also=WITH_RARE))
def test_equals_its_twin(task):
    for rollout in assert_same_trajectories(task, WITH_RARE[task], steps=30):
        assert rollout["next", "done"].sum() == 4 * N


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("task", cases(default=["Mixed-v0", "Pictures-v0"], also=TWINS))
def test_specs_and_values_equal_those_of_gym_wrapper(task, categorical):
    pool = PoolEnv(task, N, device="cpu", categorical_action_encoding=categorical)
    reference = SerialEnv(N, lambda: GymWrapper(TWINS[task](), categorical_action_encoding=categorical))
    for kind in ("observation", "action", "reward", "done"):
        assert getattr(pool, f"full_{kind}_spec") == getattr(reference, f"full_{kind}_spec")
    assert pool.set_seed(2) == reference.set_seed(2)
    assert_steps_equal(pool, reference, 20)
    pool.close()
    reference.close()


def test_single_numbers_and_doubles_as_arrays():
    """An action without dimensions, and rewards that nothing rounds."""
    actions = np.array([-1, 0, 0.5], np.float32)
    with (
        contextlib.closing(PoolVectorEnv("Scalar-v0", N, info_keys=["episode_reward"])) as envs,
        contextlib.closing(PoolVecEnv("Scalar-v0", N)) as others,
    ):
        assert envs.single_action_space == others.action_space == spaces.Box(-1, 1, ())
        assert envs.action_space.sample().shape == (N,)
        random = [np.random.Generator(np.random.PCG64(seed)).random() for seed in range(N)]
        others.seed(0)
        assert envs.reset(seed=0)[0].tolist() == others.reset().tolist() == [0, 0, 0]
        observations, rewards, _, _, infos = envs.step(actions)
        assert observations.tolist() == [1, 1, 1]
        assert rewards.dtype == np.float64
        assert rewards.tolist() == (random + actions).tolist() == infos["episode_reward"].tolist()
        assert others.step(actions)[1].tolist() == rewards.tolist()


def test_integers_that_do_not_fit_are_refused():
    with contextlib.closing(PoolVectorEnv("Mixed-v0", N)) as envs:
        envs.reset(seed=0)
        actions = envs.action_space.sample()
        actions["gear"]["lights"] = actions["gear"]["lights"].astype(np.int64) + 256
        with pytest.raises(ValueError, match=r"'gear/lights': expected numbers that fit int8, got 25[67]"):
            envs.step(actions)


@pytest.mark.parametrize("categorical", cases([False, True]))
def test_agents_stand_in_a_group(categorical):
    env = PoolEnv("Agents-v0", N, num_agents=4, categorical_action_encoding=categorical)
    single, several = (Categorical, MultiCategorical) if categorical else (OneHot, MultiOneHot)
    for key, spec, cls, shape in [
        (("agents", "action"), env.full_action_spec, single, [N, 4] if categorical else [N, 4, 5]),
        (("agents", "signal"), env.full_action_spec, several, [N, 4, 2] if categorical else [N, 4, 5]),
        (("agents", "role"), env.observation_spec, single, [N, 4] if categorical else [N, 4, 4]),
    ]:
        assert type(spec[key]) is cls
        assert list(spec[key].shape) == shape
    assert env.observation_spec["agents", "observation"].shape == (N, 4, 2)
    assert env.observation_spec["agents", "observation"].low[0, 3].tolist() == [0, -1]
    assert env.reward_key == ("agents", "reward")
    assert env.full_reward_spec["agents", "reward"].shape == (N, 4, 1)
    flags = {"done", "terminated", "truncated"}
    assert set(env.done_keys) == flags | {("agents", flag) for flag in flags}


def test_agents_leave_one_by_one_and_the_env_with_the_last():
    env = PoolEnv("Agents-v0", N, categorical_action_encoding=True, seed=0)
    data = env.rollout(12, break_when_any_done=False)
    done = data["next", "agents", "done"][0, ..., 0].int().tolist()
    assert done == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]] * 3
    assert data["next", "done"][0, :, 0].int().tolist() == [0, 0, 0, 1] * 3
    assert not data["agents", "done"][:, ::4].any()  # new episodes begin with everybody there
    action, signal = data["agents", "action"], data["agents", "signal"]
    reward = 100 * action + 10 * signal[..., 0] + signal[..., 1]
    assert torch.equal(data["next", "agents", "reward"][..., 0], reward.float())
    assert data["agents", "observation"][0, :, :, 0].tolist() == [[t, t + 1, t + 2] for t in range(4)] * 3


def test_agents_under_transforms_and_with_native_keys():
    native = PoolEnv("Agents-v0", N, seed=1, info_keys=["step_count", "agents/episode_reward"])
    plain = PoolEnv("Agents-v0", N, seed=1)
    transformed = TransformedEnv(plain, StepCounter(step_count_key="step_count"))
    transformed.append_transform(RewardSum(in_keys=[("agents", "reward")], reset_keys=["_reset"]))
    torch.manual_seed(0)
    actual = native.rollout(11, break_when_any_done=False)
    torch.manual_seed(0)
    expected = transformed.rollout(11, break_when_any_done=False)
    for key in ("step_count", ("agents", "observation"), ("agents", "reward"), ("agents", "episode_reward")):
        assert torch.equal(actual["next"][key], expected["next"][key]), key


def test_actions_of_agents_are_checked_one_by_one():
    env = PoolEnv("Agents-v0", 2)
    root = env.rand_action(env.reset())
    root["agents", "signal"][1, 2, 1] = 3
    with pytest.raises(ValueError, match="'agents/signal' of env 1, element 5: expected one of 0 to 2"):
        env.step(root)
    one_hot = PoolEnv("Agents-v0", 2, categorical_action_encoding=False)
    root = one_hot.rand_action(one_hot.reset())
    root["agents", "action"][0, 1] = 0
    with pytest.raises(ValueError, match="'agents/action' of env 0, element 1: expected a one-hot vector"):
        one_hot.step(root)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("task", cases(default=["Mixed-v0", "Rare-v0"], also=WITH_RARE))
def test_as_a_vector_env_equals_its_twins(task, mode):
    pool = PoolVectorEnv(task, N, autoreset_mode=mode)
    twins = SyncVectorEnv([WITH_RARE[task]] * N, autoreset_mode=mode)
    assert pool.observation_space == twins.observation_space
    assert pool.single_observation_space == twins.single_observation_space
    assert pool.action_space == twins.action_space
    assert data_equivalence(pool.reset(seed=3)[0], twins.reset(seed=3)[0], exact=True)
    pool.action_space.seed(0)
    for _ in range(20):
        actions = pool.action_space.sample()
        for actual, expected in zip(pool.step(actions)[:4], twins.step(actions)[:4], strict=True):
            assert data_equivalence(actual, expected, exact=True)
    pool.close()


@pytest.mark.parametrize(
    ("task", "shapes"), cases([("Agents-v0", [[3, 1]]), ("mpe2/simple_tag_v3", [[3, 1], [1, 1]])])
)
def test_as_a_vector_env_agents_are_refused(task, shapes):
    message = f"expected one reward for each env, got rewards of shapes {shapes}"
    with pytest.raises(TypeError, match=re.escape(message)):
        PoolVectorEnv(task, N)
