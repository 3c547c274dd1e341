"""Spaces that are rarely met: unlike rows of choices, large integers, dtypes that tensors hardly have."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
import torch
from any_space import AnyEnv
from cases import cases
from gymnasium import spaces
from tensordict import TensorDict
from torchrl.data import Composite, MultiOneHot, OneHot, Unbounded
from torchrl.envs import EnvBase, GymEnv, GymWrapper, SerialEnv

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv

LARGE = 2**53
UNLIKE = spaces.MultiDiscrete([[2, 3], [4, 5]])


def box(dtype, low, high, shape=(2,)):
    return spaces.Box(low, high, shape, dtype)


@pytest.mark.parametrize("encoding", cases([True, False]))
def test_rows_of_unlike_choices_in_tensordicts(encoding):
    pool = PoolEnv(lambda: AnyEnv(UNLIKE, UNLIKE), 3, num_workers=0, categorical_action_encoding=encoding)
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
    assert numbers.amax((0, 1)).tolist() == [1, 2, 3, 4]


def test_choices_that_do_not_exist_are_refused_in_unlike_rows():
    pool = PoolEnv(lambda: AnyEnv(action_space=UNLIKE), 2, num_workers=0, categorical_action_encoding=True)
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
        PoolEnv(lambda: AnyEnv(space, space), 2, num_workers=0),
        SerialEnv(2, lambda: GymWrapper(AnyEnv(space, space))),
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
        PoolEnv(lambda: AnyEnv(box(np.longdouble, 0, 1)), 2, num_workers=0)


FLOATS = {
    "MultiBinary": (spaces.MultiBinary(3), [[1.0, 0, 1], [0, 0, 1]]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), [[1.0, 2], [0, 1]]),
    "Discrete": (spaces.Discrete(3), [2.0, 0]),
    "Discrete_that_starts_elsewhere": (spaces.Discrete(3, start=5), [7.0, 5]),
}


@pytest.mark.parametrize(("space", "action"), cases(FLOATS.values()), ids=FLOATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_among_floats_are_choices(space, action, dtype):
    pool = PoolVectorEnv(lambda: AnyEnv(action_space=space), 2, num_workers=0)
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
    pool = PoolVectorEnv(lambda: AnyEnv(action_space=space), 2, num_workers=0)
    pool.reset(seed=0)
    if not isinstance(action, dict):
        action = np.array(action)
    with pytest.raises(ValueError, match=message):
        pool.step(action)
