"""Spaces of Python envs: names, dtypes, bounds and values are those that TorchRL's GymEnv gives them."""

import subprocess
import sys
from copy import deepcopy
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from any_space import AnyEnv
from cases import cases
from comparing import assert_holds_steps
from gymnasium import spaces
from python_envs import Dictionary, Sampled
from torchrl.envs import GymWrapper, SerialEnv
from torchrl_envs import TwoAgents

from torchrl_pool import EnvFailure, PoolEnv

BOX, WIDE = spaces.Box(-1, 1, (2,)), spaces.Box(-9, 9, (2,))
PICTURE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
STARTS = {
    "start of discrete": spaces.Discrete(3, start=5),
    "start of multi-discrete": spaces.MultiDiscrete([2, 3], start=[-1, 4]),
    "start of int8": spaces.Discrete(3, start=-1, dtype=np.int8),
    "start of dict": spaces.Dict(
        a=spaces.Discrete(3, start=-2), b=spaces.MultiDiscrete([2, 2], start=[1, 1])
    ),
    "start of tuple": spaces.Tuple([spaces.Discrete(3, start=1), spaces.Discrete(3, start=-1)]),
}


def assert_same_steps(make, **options):
    """Of a pool of GymEnvs, and of a SerialEnv of them."""

    def wrapped():
        return GymWrapper(make(), **options)

    pool, reference = PoolEnv(wrapped, 2), SerialEnv(2, wrapped)
    assert_holds_steps(pool, reference, 7)
    reference.close()


@pytest.mark.parametrize("name", cases(STARTS))
def test_values_of_spaces_that_start_elsewhere(name):
    """A pool shifts them; GymEnv, which does not, passes on what is not of the space."""
    space = STARTS[name]
    pool = PoolEnv(partial(AnyEnv, space), 2, categorical_action_encoding=True)
    seen = pool.rollout(99, break_when_any_done=False)
    for key, spec in pool.full_observation_spec.items(True, True):
        sizes = spec.nvec.max() if hasattr(spec, "nvec") else spec.n
        assert set(seen[key].flatten().tolist()) == set(range(int(sizes)))
    assert_same_steps(partial(AnyEnv, space), categorical_action_encoding=True)
    for categorical in (False, True):
        taking = partial(AnyEnv, action_space=space, looks=False)
        assert_same_steps(taking, categorical_action_encoding=categorical)


class Told(gymnasium.Env):
    """Observes what it is told to, and gives the reward that it is told to."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, observation, reward=1.0):
        self.observation_space, self.observation, self.reward = space, observation, reward

    def reset(self, *, seed=None, options=None):
        return deepcopy(self.observation), {}

    def step(self, action):
        return deepcopy(self.observation), self.reward, False, False, {}


# What GymEnv makes of other values than its spec names.
TOLD = {
    "a column": (WIDE, np.ones((2, 1), np.float32)),
    "a row": (spaces.Box(-1, 9, (2, 3)), np.arange(6, dtype=np.float32)),
    "a number": (spaces.Box(-1, 1, (1,)), np.float64(0.5)),
    "a tensor": (WIDE, torch.arange(2.0)),
    "a list": (WIDE, [1, 2]),
    "rounded": (spaces.Box(0, 9, (2,), np.int64), np.array([1.0, 2.7])),
    "bytes of integers": (PICTURE, np.ones((4, 5, 3), np.int64)),
    "a choice as a number": (spaces.Discrete(3), 2.0),
    "a choice as a flag": (spaces.Discrete(3), np.True_),
    "named as entries are": (spaces.Dict(state=WIDE), {"observation": np.ones(2, np.float32)}),
    "float64 for float32": (WIDE, np.array([0.1, 0.2])),
    "a reward of an array": (WIDE, np.ones(2, np.float32), np.array([0.1])),
    "a reward of an object": (WIDE, np.ones(2, np.float32), np.array(1.5, dtype=object)),
    "no reward": (WIDE, np.ones(2, np.float32), None),
    "a flag for a reward": (WIDE, np.ones(2, np.float32), True),
}


@pytest.mark.parametrize("told", cases(TOLD.values()), ids=TOLD)
def test_what_gym_env_converts(told):
    assert_same_steps(lambda: Told(*told))


def test_unlike_spaces_in_a_tuple_have_an_entry_each_and_like_ones_are_stacked():
    """Of these GymEnv makes none."""
    space = spaces.Tuple([spaces.Discrete(3), BOX, spaces.Dict(a=BOX)])
    pool = PoolEnv(lambda: Sampled(deepcopy(space), deepcopy(space)), 2, num_workers=0)
    parts = {("0",), ("1",), ("2", "a")}
    assert set(pool.action_keys) == {("action", *part) for part in parts}
    assert set(pool.observation_keys) == {("observation", *part) for part in parts}
    assert pool.rollout(3)["observation", "2", "a"].shape == (2, 3, 2)
    like = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])
    pool = PoolEnv(lambda: Sampled(like), 2, num_workers=0, categorical_action_encoding=True)
    assert pool.observation_spec["observation"].nvec.tolist() == [[2, 3]] * 2
    bounds = spaces.Tuple([BOX, spaces.Box(-np.inf, np.inf, (2,))])
    spec = PoolEnv(lambda: Sampled(bounds), 1, num_workers=0).observation_spec["observation"]
    assert spec.space.high.tolist() == [[[1, 1], [np.inf, np.inf]]]


@pytest.mark.parametrize(
    ("make", "info_keys", "error", "message"),
    cases(
        [
            (lambda: object(), (), TypeError, "expected a gymnasium.Env.*builtins.object"),
            (lambda: gymnasium.make_vec("CartPole-v1", 2), (), TypeError, "of many envs"),
            (lambda: SerialEnv(2, TwoAgents), (), TypeError, r"batch_size \(2,\)"),
            (TwoAgents, ("x",), TypeError, "info_keys"),
            (Dictionary, ("nothing",), ValueError, "'nothing'.*'count', 'deep/half'"),
            (Dictionary, ("name",), TypeError, "info 'name'.*U4"),
            (Dictionary, ("picture",), ValueError, "'picture'"),
            (
                lambda: Sampled(spaces.Dict(a=spaces.Graph(spaces.Box(0, 1), None))),
                (),
                TypeError,
                "observation 'a'.*Graph",
            ),
            (lambda: Sampled(spaces.Sequence(BOX)), (), TypeError, "observation 'observation'.*Sequence"),
            (lambda: Sampled(spaces.Graph(BOX, None)), (), TypeError, "Graph"),
            (lambda: Sampled(action_space=spaces.Text(3)), (), TypeError, "action 'action'.*Text"),
            (lambda: Sampled(spaces.Box(0, 1, (2,), np.longdouble)), (), TypeError, "float128"),
            (lambda: Sampled(spaces.Dict({"a/b": BOX})), (), ValueError, "'a/b'"),
            (lambda: Sampled(spaces.Dict(done=BOX)), (), ValueError, "'done'"),
            (
                lambda: Sampled(spaces.Dict(next=spaces.Dict(a=BOX))),
                (),
                ValueError,
                "'next/a'.*TorchRL's own",
            ),
            (lambda: Sampled(spaces.Dict(_reset=BOX)), (), ValueError, "'_reset'.*TorchRL's own"),
            (lambda: Sampled(spaces.Dict(env_index=BOX)), (), ValueError, "'env_index'.*TorchRL's own"),
            (lambda: Sampled(spaces.Dict(reward=BOX)), (), ValueError, "'reward'"),
            (lambda: Sampled(spaces.Dict(action=BOX)), (), ValueError, "'action'"),
            (
                lambda: Sampled(spaces.Dict(a=BOX), spaces.Dict(a=spaces.Dict(b=BOX))),
                (),
                ValueError,
                "'a/b'.*'a'",
            ),
        ]
    ),
)
def test_what_cannot_be_adapted_is_refused(make, info_keys, error, message):
    with pytest.raises((error, EnvFailure), match=message):
        PoolEnv(make, 1, info_keys=info_keys)


def test_nothing_of_this_needs_torch():
    program = """if True:
        import sys
        from python_envs import Dictionary
        import torchrl_pool._processes.launching
        from torchrl_pool._workers.adapters import adapt
        adapt(Dictionary(), ["count"]).reset(0, None)
        print("torch" in sys.modules)
    """
    lines = [sys.executable, "-c", program]
    ended = subprocess.run(lines, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
