"""Spaces of Python envs: names, dtypes, bounds and values are those that TorchRL's GymEnv gives them."""

import subprocess
import sys
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from python_envs import Dictionary, Sampled
from torchrl.envs import GymWrapper, SerialEnv
from torchrl_envs import TwoAgents

from torchrl_pool import PoolEnv, _core
from torchrl_pool._workers.adapters import adapt

BOX, WIDE = spaces.Box(-1, 1, (2,)), spaces.Box(-9, 9, (2,))
PICTURE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
SPACES = {
    "box": BOX,
    "float64": spaces.Box(-1, 1, (2, 3), np.float64),
    "float16": spaces.Box(-1, 1, (2, 3), np.float16),
    "bytes": spaces.Box(0, 255, (4,), np.uint8),
    "some bytes": spaces.Box(0, 9, (4,), np.uint8),
    "picture": PICTURE,
    "unbounded": spaces.Box(-np.inf, np.inf, (2,)),
    "half bounded": spaces.Box(np.array([-np.inf, 0], "f"), np.array([np.inf, 1], "f")),
    "bounded below": spaces.Box(0, np.inf, (2,)),
    "without dimensions": spaces.Box(-1, 1, ()),
    "without elements": spaces.Box(-1, 1, (0, 3)),
    "bools": spaces.Box(0, 1, (2,), bool),
    "discrete": spaces.Discrete(3),
    "int8": spaces.Discrete(3, dtype=np.int8),
    "multi-discrete of int32": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-discrete of one kind": spaces.MultiDiscrete([3, 3]),
    "multi-discrete in rows": spaces.MultiDiscrete([[2, 2], [2, 2]]),
    "multi-binary": spaces.MultiBinary(3),
    "tuple": spaces.Tuple([BOX, BOX]),
    "tuple of discrete": spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]),
    "dict": spaces.Dict(b=BOX, a=spaces.Discrete(3), c=spaces.Dict(d=spaces.MultiBinary(2))),
    "dict of tuple": spaces.Dict(p=spaces.Tuple([BOX, BOX]), q=spaces.Discrete(2)),
    "dict with state": spaces.Dict(state=BOX, other=BOX),
    "dict with both": spaces.Dict(state=BOX, observation=BOX),
}
STARTS = {
    "start of discrete": spaces.Discrete(3, start=5),
    "start of multi-discrete": spaces.MultiDiscrete([2, 3], start=[-1, 4]),
    "start of int8": spaces.Discrete(3, start=-1, dtype=np.int8),
    "start of dict": spaces.Dict(
        a=spaces.Discrete(3, start=-2), b=spaces.MultiDiscrete([2, 2], start=[1, 1])
    ),
    "start of tuple": spaces.Tuple([spaces.Discrete(3, start=1), spaces.Discrete(3, start=-1)]),
}
# Choices are int64 here, whatever Gymnasium's dtype of them, and flags are choices.
NARROW = {"int8", "multi-discrete of int32", "bools"}
CATEGORICAL = {"categorical_action_encoding": True}
# Both in observations and in actions.
USUAL = [
    "box",
    "float16",
    "bools",
    "discrete",
    "int8",
    "multi-discrete",
    "multi-discrete of one kind",
    "multi-discrete in rows",
    "multi-binary",
    "tuple of discrete",
    "dict",
    "dict of tuple",
]
KINDS = pytest.mark.parametrize("wraps", [False, True], ids=["Gymnasium", "GymEnv"])
ENCODINGS = pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "one-hot"])


def pair(make, wraps, categorical, make_own=None):
    """A pool of such envs (or of other ones), or of GymEnvs around them, and TorchRL's."""

    def wrapped():
        return GymWrapper(make(), categorical_action_encoding=categorical)

    own = {} if wraps else {"categorical_action_encoding": categorical}
    pool = PoolEnv(wrapped if wraps else make_own or make, 2, num_workers=0, **own)
    return pool, SerialEnv(2, wrapped)


def assert_same_steps(pool, reference, steps=7):
    """Also where an episode ends; with the pool's random actions."""
    assert pool.set_seed(3) == reference.set_seed(3)
    torch.manual_seed(0)
    root, expected = pool.reset(), reference.reset()
    for _ in range(steps):
        actions = pool.full_action_spec.rand()
        data, root = pool.step_and_maybe_reset(root.update(actions))
        theirs, expected = reference.step_and_maybe_reset(expected.update(actions))
        for key, value in theirs["next"].items(True, True):
            ours = data["next"][key]
            assert ours.shape == value.shape, key
            assert torch.equal(ours.to(value.dtype), value), key
        for key in reference.observation_keys:
            assert torch.equal(root[key].to(expected[key].dtype), expected[key]), key


@ENCODINGS
@KINDS
@pytest.mark.parametrize(
    "name",
    cases(
        default=[*USUAL, "picture", "half bounded", "without elements", "dict with both"],
        also=SPACES,
    ),
)
def test_observations(name, wraps, categorical):
    pool, reference = pair(lambda: Sampled(deepcopy(SPACES[name])), wraps, categorical)
    if name not in NARROW:
        for key, spec in reference.full_observation_spec.items(True, True):
            assert pool.full_observation_spec[key] == spec, key
    assert set(pool.observation_keys) == set(reference.observation_keys)
    assert pool.reward_spec == reference.reward_spec
    assert_same_steps(pool, reference)


def told(action):
    """A number that says which action it is; of likes GymEnv makes an array where a space has a tuple."""
    if isinstance(action, dict):
        return sum(i * told(action[key]) for i, key in enumerate(sorted(action), 1))
    return np.sum(np.arange(1, np.size(action) + 1) * np.ravel(action))


class Acted(Sampled):
    """Observes what action it got, and may look whether it is one of its space."""

    def __init__(self, action_space, looks=False):
        super().__init__(deepcopy(WIDE), deepcopy(action_space))
        self.looks = looks

    def step(self, action):
        assert not self.looks or self.action_space.contains(action), action
        _, *rest = super().step(action)
        return np.full(2, told(action), np.float32), *rest


# Without those of which TorchRL draws infinite ones, and what has no elements.
ACTIONS = {
    name: space
    for name, space in {**SPACES, "three choices": spaces.Tuple([spaces.Discrete(3)] * 3)}.items()
    if name not in ("unbounded", "half bounded", "bounded below", "without elements")
    and "dict with" not in name
}


@ENCODINGS
@KINDS
@pytest.mark.parametrize(
    "name",
    cases(
        default=[*USUAL, "without dimensions", "tuple", "three choices"],
        also=ACTIONS,
    ),
)
def test_actions(name, wraps, categorical):
    pool, reference = pair(
        partial(Acted, ACTIONS[name]), wraps, categorical, make_own=partial(Acted, ACTIONS[name], looks=True)
    )
    if name not in NARROW:
        for key, spec in reference.full_action_spec.items(True, True):
            assert pool.full_action_spec[key] == spec, key
    assert set(pool.action_keys) == set(reference.action_keys)
    assert_same_steps(pool, reference)


@ENCODINGS
@pytest.mark.parametrize(
    "name",
    cases(
        default=["start of discrete", "start of multi-discrete", "start of dict", "start of tuple"],
        also=STARTS,
    ),
)
def test_values_of_spaces_that_start_elsewhere(name, categorical):
    """GymEnv, which does not shift them, passes on what is not of the space; a pool shifts them."""
    space = STARTS[name]
    looking = partial(Acted, space, looks=True)
    PoolEnv(looking, 2, num_workers=0, categorical_action_encoding=categorical).rollout(20)
    pool = PoolEnv(lambda: Sampled(deepcopy(space), episode=100), 2, num_workers=0, **CATEGORICAL)
    seen = pool.rollout(50)
    for key, spec in pool.full_observation_spec.items(True, True):
        sizes = spec.nvec.max() if hasattr(spec, "nvec") else spec.n
        assert set(seen[key].flatten().tolist()) == set(range(int(sizes)))
    assert_same_steps(*pair(lambda: Sampled(deepcopy(space)), True, True))
    assert_same_steps(*pair(partial(Acted, space), True, categorical))


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
    assert_same_steps(*pair(lambda: Told(*told), True, False))


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
    with pytest.raises(error, match=message):
        _core.remote_config("env", list(adapt(make(), info_keys).entries))  # which looks at the names


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
    ended = subprocess.run(lines, cwd=__file__.rpartition("/")[0], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
