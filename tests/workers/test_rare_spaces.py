"""Spaces that are rarely met: unlike rows of choices, large integers, dtypes that tensors hardly have."""

import copy
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from tensordict import TensorDict
from torchrl.data import Composite, MultiOneHot, OneHot, Unbounded
from torchrl.envs import EnvBase, GymEnv, GymWrapper, SerialEnv

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv

LARGE = 2**53
UNLIKE = spaces.MultiDiscrete([[2, 3], [4, 5]])


class Drawn(gymnasium.Env):
    """It shows values of its space, and pays for what an action says, if that is of its space."""

    def __init__(self, action=None, observation=None):
        self.action_space = action or spaces.Discrete(2)
        # Of its own: a space draws from a stream that it keeps.
        self.observation_space = copy.deepcopy(observation or spaces.Box(-1, 1, (2,), np.float32))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), (action, self.action_space)
        leaves = spaces.flatten(self.action_space, action).astype(np.float64)
        return self.observation_space.sample(), float(leaves.sum()), False, False, {}


def vector_envs(*given):
    return SyncVectorEnv([lambda: Drawn(*given)] * 2), PoolVectorEnv(lambda: Drawn(*given), 2, num_workers=0)


def box(dtype, low, high, shape=(2,)):
    return spaces.Box(low, high, shape, dtype)


SPACES = {
    "a_number": box(np.float64, -1, 1, ()),
    "bounds_of_each": spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 2.0]), dtype=np.float64),
    "a_byte": box(np.uint8, 0, 255, ()),
    "a_picture": box(np.uint8, 0, 255, (8, 8, 3)),
    "choices": spaces.Discrete(2),
    "choices_that_start_elsewhere": spaces.Discrete(5, start=-2),
    "several_choices": spaces.MultiDiscrete([11, 13, 17]),
    "flags": spaces.MultiBinary(19),
    "a_tuple": spaces.Tuple([spaces.Discrete(7), box(np.float64, -1, 1)]),
    "nested": spaces.Dict(
        position=spaces.Dict(x=spaces.Discrete(29), y=spaces.Discrete(31)),
        velocity=spaces.Tuple([spaces.Discrete(37), box(np.uint8, 0, 255, ())]),
    ),
    "unlike_rows": UNLIKE,
    "unlike_rows_that_start_elsewhere": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [7, 2]]),
    "three_dimensions": spaces.MultiDiscrete(np.arange(2, 10).reshape(2, 2, 2)),
    "a_column": spaces.MultiDiscrete([[2], [3]]),
    "int64": box(np.int64, LARGE + 1, LARGE + 3),
    "int64_below": box(np.int64, -LARGE - 3, -LARGE - 1),
    "uint64": box(np.uint64, LARGE, LARGE + 8),  # of which Gymnasium draws doubles
    "all of uint64": box(np.uint64, 0, 2**64 - 1),
    "uint32": box(np.uint32, 0, 2**32 - 1),
    "uint16": box(np.uint16, 3, 2**16 - 1),
    "uint16_alone": box(np.uint16, 0, 2**16 - 1, ()),
    "float16": box(np.float16, -1, 1),
    "float16_unbounded": box(np.float16, -np.inf, np.inf, (2, 3)),
    "in_a_dict": spaces.Dict(a=box(np.uint16, 0, 9), b=UNLIKE, c=box(np.int64, LARGE, LARGE + 1)),
    "in_a_tuple": spaces.Tuple((box(np.float16, 0, 1), box(np.float16, -1, 2))),
    "large_in_a_tuple": spaces.Tuple((box(np.int64, 0, LARGE + 1), box(np.int64, -1, LARGE + 3))),
}


def assert_like(one, other):
    if isinstance(other, dict):
        assert list(one) == list(other)
        one, other = one.values(), other.values()
    if isinstance(other, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        for mine, theirs in zip(one, other, strict=True):
            assert_like(mine, theirs)


@pytest.mark.parametrize("space", cases(SPACES.values()), ids=SPACES)
def test_vector_envs_have_the_arrays_of_sync_vector_env(space):
    action = spaces.Dict(act=space) if isinstance(space, spaces.Dict) else space
    reference, pool = vector_envs(action, space)
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(pool, name) == getattr(reference, name), name
    reference.action_space.seed(0)
    assert_like(pool.reset(seed=3)[0], reference.reset(seed=3)[0])
    for _ in range(3):
        action = reference.action_space.sample()
        assert_like(pool.step(action)[:2], reference.step(action)[:2])


@pytest.mark.parametrize("encoding", cases([True, False]))
def test_rows_of_unlike_choices_in_tensordicts(encoding):
    pool = PoolEnv(lambda: Drawn(UNLIKE, UNLIKE), 3, num_workers=0, categorical_action_encoding=encoding)
    spec = pool.action_spec
    data = pool.rollout(20)
    assert spec.is_in(data["action"][:, 0])
    assert pool.observation_spec["observation"].is_in(data["observation"][:, 0])
    if encoding:
        assert spec.shape == (3, 2, 2)
        assert (data["action"] < torch.tensor(UNLIKE.nvec)).all()
        numbers = data["action"].flatten(2)
    else:
        assert isinstance(spec, MultiOneHot)
        assert spec.shape == (3, 14)  # one after the other: TorchRL itself has no spec for them
        numbers = torch.stack([one.argmax(-1) for one in data["action"].split([2, 3, 4, 5], -1)], -1)
    # What the env is paid is one for each choice, for its one-hot vectors hold as many ones.
    assert (data["next", "reward"] == 4).all()
    assert numbers.amax((0, 1)).tolist() == [1, 2, 3, 4]


def test_choices_that_do_not_exist_are_refused_in_unlike_rows():
    pool = PoolEnv(lambda: Drawn(UNLIKE), 2, num_workers=0, categorical_action_encoding=True)
    root = pool.reset()
    root["action"] = torch.tensor([[[1, 2], [3, 4]], [[1, 2], [4, 4]]])
    with pytest.raises(ValueError, match="'action' of env 1, element 2: expected one of 0 to 3, got 4"):
        pool.step(root)


class Choosing(EnvBase):
    """An env of TorchRL that takes one-hot vectors."""

    def __init__(self, spec):
        super().__init__()
        self.action_spec = spec
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict):
        return TensorDict(observation=torch.zeros(1))

    def _step(self, tensordict):
        paid = tensordict["action"].sum().to(torch.float32).reshape(1)
        return TensorDict(observation=torch.zeros(1), reward=paid, done=torch.zeros(1, dtype=torch.bool))

    def _set_seed(self, seed):
        pass


ONE_HOTS = {
    "bool": OneHot(3),
    "int64": OneHot(3, dtype=torch.int64),
    "float32": OneHot(3, dtype=torch.float32),
    "rows": OneHot(3, shape=(2, 3), dtype=torch.int64),
    "several": MultiOneHot([3, 3], dtype=torch.int64),
    "int8": MultiOneHot([3, 2], dtype=torch.int8),
}


@pytest.mark.parametrize("spec", ONE_HOTS.values(), ids=ONE_HOTS)
def test_one_hot_vectors_of_torchrl_envs_choose_something(spec):
    """A vector of zeros is refused; ties, which TorchRL's QValueActor gives, are not."""
    with closing(PoolEnv(partial(Choosing, spec), 2, num_workers=0)) as pool:
        root = pool.reset()
        assert pool.action_spec == torch.stack([spec, spec])
        pool.step(pool.rand_action(root))
        action = pool.action_spec.rand()
        ties = torch.ones_like(action)
        assert pool.step(root.set("action", ties))["next", "reward"].flatten().tolist() == [ties[0].sum()] * 2
        nothing = action.clone()
        nothing[1].flatten()[-2:] = 0
        nothing[1].flatten()[:3] = 0
        wrong = [nothing]
        if spec.dtype is not torch.bool:
            wrong.append(action * 2)
        for one in wrong:
            with pytest.raises(ValueError, match=r"'action' of env .*: expected a one-hot vector of"):
                pool.step(root.set("action", one))


@pytest.mark.parametrize(
    "make", cases(default=["gymnasium:CartPole-v1", "CartPole-v1"], also=[partial(GymEnv, "CartPole-v1")])
)
def test_one_hot_vectors_choose_something_in_every_kind_of_env(make):
    with closing(PoolEnv(make, 1)) as pool:
        root = pool.reset()
        pool.step(root.set("action", torch.ones_like(root.get("action", pool.action_spec.rand()))))
        with pytest.raises(ValueError, match=r"'action' of env 0: expected a one-hot vector of 2 entries"):
            pool.step(root.set("action", pool.action_spec.zero()))


@pytest.mark.parametrize("low", cases(default=[LARGE + 1, -(2**62) - 1], also=[-(2**63)]))
def test_large_bounds_are_exact(low):
    space = box(np.int64, low, low + 3)
    pool, reference = (
        PoolEnv(lambda: Drawn(space, space), 2, num_workers=0),
        SerialEnv(2, lambda: GymWrapper(Drawn(space, space))),
    )
    for one, other in (
        (pool.action_spec, reference.action_spec),
        (pool.observation_spec["observation"], reference.observation_spec["observation"]),
    ):
        assert one == other
        assert one.space.low.unique().tolist() == [low]
        assert one.space.high.unique().tolist() == [low + 3]
    root = pool.reset()
    for value in (low, low + 1, low + 3):
        assert pool.step(root.set("action", torch.full((2, 2), value)))["next", "reward"].isfinite().all()


def test_numbers_that_no_tensor_holds_are_refused():
    with pytest.raises(EnvFailure, match=r"'observation': expected one of the dtypes .*, got float128"):
        PoolEnv(lambda: Drawn(None, box(np.longdouble, 0, 1)), 2, num_workers=0)


FLOATS = {
    "MultiBinary": (spaces.MultiBinary(3), [[1.0, 0, 1], [0, 0, 1]]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), [[1.0, 2], [0, 1]]),
    "Discrete": (spaces.Discrete(3), [2.0, 0]),
    "Discrete_that_starts_elsewhere": (spaces.Discrete(3, start=5), [7.0, 5]),
}


@pytest.mark.parametrize(("space", "action"), cases(FLOATS.values()), ids=FLOATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_among_floats_are_choices(space, action, dtype):
    pool = PoolVectorEnv(lambda: Drawn(space), 2, num_workers=0)
    pool.reset(seed=0)
    given = np.array(action, dtype)
    floats = pool.step(given)[1]
    np.testing.assert_array_equal(floats, pool.step(given.astype(np.int64))[1])
    wrong = given.copy()
    for value in (0.5, np.nan, np.inf):
        wrong.reshape(-1)[0] = value
        with pytest.raises(ValueError, match=r"'action'.*expected.*, got"):
            pool.step(wrong)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    cases(
        default=[
            (spaces.Discrete(3, start=-1), [-2, 0], r"'action' of env 0: expected one of -1 to 1, got -2"),
            (
                spaces.MultiDiscrete([2, 11], start=[0, 25]),
                [[1, 25], [1, 10]],
                r"'action' of env 1, element 1: expected one of 25 to 35, got 10",
            ),
            (
                spaces.Dict(a=spaces.Dict(b=spaces.Discrete(2, start=1))),
                {"a": {"b": [0, 1]}},
                r"'a/b' of env 0: expected one of 1 to 2, got 0",
            ),
        ],
        also=[
            (spaces.Discrete(3, start=5), [5, 8], r"'action' of env 1: expected one of 5 to 7, got 8"),
            (spaces.Discrete(3), [0, 3], r"'action' of env 1: expected one of 0 to 2, got 3"),
        ],
    ),
)
def test_refusals_name_the_numbers_that_were_sent(space, action, message):
    pool = PoolVectorEnv(lambda: Drawn(space), 2, num_workers=0)
    pool.reset(seed=0)
    if not isinstance(action, dict):
        action = np.array(action)
    with pytest.raises(ValueError, match=message):
        pool.step(action)
