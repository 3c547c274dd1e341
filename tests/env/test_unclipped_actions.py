"""Numbers outside of a Box reach the env as they are, on every road, as in SerialEnv and SyncVectorEnv."""

import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from building import build_plugin
from cases import cases
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from torchrl.envs import GymWrapper, SerialEnv, TransformedEnv

from torchrl_pool import (
    MujocoPool,
    MultiThreadedEnv,
    PoolEnv,
    fuse,
    load_plugin,
)
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

WHERE = {
    "here": {"num_workers": 0},
    "workers": {"num_workers": 2},
}
N = 2
HIGH = np.float32(0.8)
FAR = np.array([[HIGH, np.nextafter(HIGH, 1)], [-3e38, 1e5]], np.float32)


class Echo(gymnasium.Env):
    """Shows the action that it was given."""

    def __init__(self, dtype=np.float32):
        low, high = (-1.4, 0.8) if np.issubdtype(dtype, np.floating) else (0, 3)
        self.action_space = spaces.Box(low, high, (2,), dtype)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        assert action.dtype == self.action_space.dtype
        return action.astype(np.float64), float(action[0]), False, False, {}


@pytest.mark.parametrize("where", cases(WHERE.values()), ids=WHERE)
def test_envs_of_python_get_them(where):
    pool = PoolEnv(Echo, N, **where)
    serial = SerialEnv(N, lambda: GymWrapper(Echo()))
    action = torch.from_numpy(FAR)
    seen = [env.step(env.reset().set("action", action.clone()))["next"] for env in (pool, serial)]
    assert torch.equal(seen[0]["observation"], action.double())
    for key in ("observation", "reward"):
        assert torch.equal(seen[0][key], seen[1][key])
    pool.async_step_and_maybe_reset_send(pool.reset().set("action", action), [0, 1])
    data, _ = pool.async_step_and_maybe_reset_recv(N)
    assert torch.equal(data["next", "observation"][data["env_index"].argsort()], action.double())
    pool.close()


@pytest.mark.parametrize("dtype", cases(default=[np.uint8, np.int32, np.float64], also=[np.int8, np.int64]))
def test_boxes_of_every_dtype(dtype):
    """Integers as well: none of them is the number of a choice."""
    limits = (np.finfo if np.issubdtype(dtype, np.floating) else np.iinfo)(dtype)
    action = np.array([[limits.min, limits.max], [4, 5]], dtype)
    make = partial(Echo, dtype)
    pool, envs = PoolVectorEnv(make, N, num_workers=0), SyncVectorEnv([make] * N)
    pool.reset()
    envs.reset()
    for ours, theirs in zip(pool.step(action)[:4], envs.step(action)[:4], strict=True):
        assert np.array_equal(ours, theirs)


def test_vec_envs_pass_them_on():
    pool, envs = PoolVecEnv(Echo, N, num_workers=0), DummyVecEnv([Echo] * N)
    pool.reset()
    envs.reset()
    for ours, theirs in zip(pool.step(FAR)[:3], envs.step(FAR)[:3], strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("bad", cases([np.nan, np.inf, -np.inf]))
@pytest.mark.parametrize("task", [Echo, "Pendulum-v1"], ids=["Python", "task"])
def test_what_is_not_finite_is_refused_on_every_road(task, bad):
    where = {"num_workers": 0} if task is Echo else {}
    env = PoolEnv(task, N, **where)
    root = env.reset()
    action = env.full_action_spec.zero()["action"]
    action[1, -1] = bad
    root.set("action", action)
    message = r"'action' of env 1.*: expected a finite number, got"
    for call in (
        env.step,
        env.step_and_maybe_reset,
        partial(env.async_step_send, env_index=[0, 1]),
        partial(env.async_step_and_maybe_reset_send, env_index=[0, 1]),
    ):
        with pytest.raises(ValueError, match=message):
            call(root.clone())
    for vector in (PoolVectorEnv(task, N, **where), PoolVecEnv(task, N, **where)):
        vector.reset()
        with pytest.raises(ValueError, match=message):
            vector.step(action.numpy())


def test_choices_that_are_none_are_refused():
    """Of a MultiBinary, too, whose entries are bounded integers."""
    load_plugin(build_plugin("spaces"))
    for make in (partial(PoolEnv, "Mixed-v0", N), partial(PoolEnv, Lights, N, num_workers=0)):
        env = make(categorical_action_encoding=True)
        root = env.rand_action(env.reset())
        key = ("gear", "lights") if ("gear", "lights") in env.action_keys else "action"
        root[key][1, 2] = 2
        with pytest.raises(ValueError, match=r"env 1, element 2: expected a number in \[0, 1\], got 2"):
            env.step(root)


class Lights(Echo):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiBinary(3)


STRICT = {
    "MultiThreadedEnv": partial(MultiThreadedEnv, N, "Pendulum-v1"),
    "a dict of arguments": lambda **strict: MultiThreadedEnv(N, "Pendulum-v1", create_env_kwargs=strict),
    "MujocoPool": partial(MujocoPool, "inverted_pendulum.xml", N),
    "an env of Python": partial(PoolEnv, Echo, N, num_workers=0),
    "fuse": lambda **strict: fuse(TransformedEnv(PoolEnv("Pendulum-v1", N, **strict))),
}


@pytest.mark.parametrize("make", cases(STRICT.values()), ids=STRICT)
def test_strict_checks_are_one_keyword_away(make):
    for strict in ({}, {"check_actions": "strict"}):
        env = make(**strict)
        action = env.full_action_spec.zero()["action"] + 9
        root = env.reset().set("action", action)
        if strict:
            with pytest.raises(ValueError, match=r"'action' of env 0.*: expected a number in \["):
                env.step(root)
        else:
            env.step(root)
        env.close()


@pytest.mark.parametrize("make", cases([PoolVectorEnv, PoolVecEnv, partial(gymnasium.make_vec)]))
def test_strict_checks_of_vector_envs(make):
    task = "Pendulum-v1" if make in (PoolVectorEnv, PoolVecEnv) else "torchrl_pool/Pendulum-v1"
    envs = make(task, num_envs=N, check_actions="strict")
    envs.reset()
    envs.step(np.full((N, 1), 2, np.float32))
    with pytest.raises(ValueError, match=r"expected a number in \[-2, 2\], got 2.5"):
        envs.step(np.full((N, 1), 2.5, np.float32))


def test_a_copy_and_a_pickle_stay_strict():
    env = PoolEnv("Pendulum-v1", N, check_actions="strict")
    copy = pickle.loads(pickle.dumps(env))
    with pytest.raises(ValueError, match="expected a number in"):
        copy.step(copy.reset().set("action", torch.full((N, 1), 3.0)))


# ---- programs of TorchRL's


# ---- MuJoCo's models


def test_mujoco_clamps_controls_and_functions_see_actions():
    def reward(state, action, new):
        return action.square().sum(1)

    states = {}
    for value in (3.0, 100.0):
        env = MujocoPool("inverted_pendulum.xml", N, reward=reward, seed=0)  # controls from -3 to 3
        data = env.step(env.reset().set("action", torch.full((N, 1), value)))["next"]
        assert data["reward"].tolist() == [[value**2]] * N
        states[value] = torch.cat([data["qpos"], data["qvel"]], 1)
    assert torch.equal(states[3.0], states[100.0])


def test_targets_outside_of_a_joints_range_are_taken_as_they_are():
    """With kp, an action is a number in the law, and the control that comes of it is clamped."""
    seen = []
    for options, action in (({"kp": 0.5}, 2.5), ({}, 0.5 * 2.5)):
        env = MujocoPool("inverted_pendulum.xml", N, seed=0, **options)
        root = env.reset()  # every joint is at 0
        seen.append(env.step(root.set("action", torch.full((N, 1), action)))["next", "qvel"])
    assert torch.equal(*seen)
