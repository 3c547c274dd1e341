"""Numbers that few envs have, float16 and unsigned integers among them, in all that a pool does."""

import gymnasium
import numpy as np
import pytest
import torch
from any_space import OF_GYM_ENV
from cases import cases
from comparing import assert_same
from gymnasium import spaces
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import (
    DTypeCastTransform,
    EnvBase,
    FlattenObservation,
    ObservationNorm,
    SerialEnv,
    SignTransform,
    StepCounter,
    TransformedEnv,
)

from torchrl_pool import EnvFailure, PoolEnv, fuse

OTHERS = ["uint16", "uint32", "uint64"]
ALL = ["bool", *OF_GYM_ENV, *OTHERS]
N = 3


def least_and_most(dtype):
    if dtype == "bool":
        return 0, 1
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    return limits.min, limits.max


def drawn(random, dtype, shape):
    """Any bits, but those of no finite number."""
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    values = np.frombuffer(random.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)
    return np.where(np.isfinite(values), values, np.array(1, dtype))


class Numbers(gymnasium.Env):
    """It shows any numbers of a dtype, whole and in parts, and repeats each action."""

    def __init__(self, dtype, length=4, is_dict=True):
        box = spaces.Box(*least_and_most(dtype), (3,), dtype)
        self.action_space = box_of(dtype)
        everything = spaces.Dict(
            many=box, one=spaces.Box(*least_and_most(dtype), (), dtype), again=box_of(dtype)
        )
        self.observation_space = everything if is_dict else box
        self.dtype, self.length, self.is_dict = np.dtype(dtype), length, is_dict

    def _shown(self, again):
        many = drawn(self.np_random, self.dtype.name, (3,))
        one = drawn(self.np_random, self.dtype.name, ())
        info = {"told": drawn(self.np_random, self.dtype.name, (2,)), "number": self.dtype.type(one)}
        return ({"many": many, "one": one, "again": again} if self.is_dict else many), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.ends = 0, int(self.np_random.integers(2, self.length + 1))
        return self._shown(np.zeros(2, self.dtype))

    def step(self, action):
        assert action.dtype == self.dtype
        self.count += 1
        observation, info = self._shown(np.array(action))
        return observation, float(self.count), self.count == self.ends, False, info


def box_of(dtype):
    return spaces.Box(0, 1 if dtype == "bool" else 9, (2,), dtype)


def played(env, steps=12, fixed=None):
    """All that an env shows, with actions that are the same for all envs."""
    env.set_seed(0)
    root, seen = env.reset(), []
    random = np.random.default_rng(0)
    for _ in range(steps):
        dtype = root["again"].dtype
        root["action"] = torch.as_tensor(random.integers(0, 2, (N, 2))).to(dtype)
        data, root = env.step_and_maybe_reset(root)
        seen += [data.clone(), root.clone()]
    return seen


@pytest.mark.parametrize(
    "dtype", cases(default=["bool", "uint8", "int8", "int32", "float16", "float64"], also=ALL)
)
def test_strict_actions_are_within_their_bounds(dtype):
    pool = PoolEnv(lambda: Numbers(dtype), N, num_workers=0, check_actions="strict")
    root, action = pool.reset(), torch.zeros(N, 2, dtype=getattr(torch, dtype))
    pool.step(root.set("action", action.clone()))
    if dtype != "bool":
        wrong = action.numpy().copy()
        wrong[1, 1] = 10
        with pytest.raises(ValueError, match=r"'action' of env 1, element 1: expected .*\[0, 9\], got 10"):
            pool.step(root.set("action", torch.from_numpy(wrong)))


def test_float16_actions_are_finite_numbers():
    pool = PoolEnv(lambda: Numbers("float16"), N, num_workers=0)
    root = pool.reset()
    for value in (65504.0, -65504.0, 2**-24, -0.0):
        action = torch.full((N, 2), value, dtype=torch.float16)
        assert torch.equal(pool.step(root.set("action", action))["next", "again"], action)
    for value in (torch.inf, -torch.inf, torch.nan):
        with pytest.raises(ValueError, match="'action' of env 0, element 0: expected a finite number"):
            pool.step(root.set("action", torch.full((N, 2), value, dtype=torch.float16)))


def test_nan_among_float16_is_found():
    class Broken(Numbers):
        def step(self, action):
            observation, *rest = super().step(action)
            observation["many"][0] = np.nan
            return observation, *rest

    pool = PoolEnv(lambda: Broken("float16"), N, num_workers=0, refuse_nan=True)
    with pytest.raises(EnvFailure, match="the env wrote nan to 'many'"):
        pool.rand_step(pool.reset())


@pytest.mark.parametrize("wanted", cases([torch.float32, torch.float64]))
def test_float16_observations_in_another_dtype(wanted):
    pools = [PoolEnv(lambda: Numbers("float16"), N, num_workers=0, obs_dtype=one) for one in (None, wanted)]
    own, converted = (pool.reset(seed=1) for pool in pools)
    assert converted["many"].dtype is wanted
    assert torch.equal(own["many"].to(wanted), converted["many"])


class Paying(EnvBase):
    """An env of TorchRL whose rewards and observations are of any dtype."""

    def __init__(self, reward, observation):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((2,), dtype=observation))
        self.action_spec = Bounded(0, 1, (2,), dtype=observation)
        self.reward_spec = Unbounded((1,), dtype=reward)
        flags = {name: Binary(1, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags)

    def _set_seed(self, seed):
        pass

    def _reset(self, tensordict=None, **kwargs):
        self.count = 0
        return TensorDict({"observation": torch.ones(2).to(self.observation_spec["observation"].dtype)})

    def _step(self, tensordict):
        self.count += 1
        reward = torch.tensor([self.count / 2]).to(self.reward_spec.dtype)
        ends = torch.tensor([self.count == 4])
        flags = {"terminated": ends, "truncated": torch.zeros_like(ends), "done": ends.clone()}
        return TensorDict({"observation": tensordict["action"].clone(), "reward": reward, **flags})


@pytest.mark.parametrize(
    "reward", [torch.uint8, torch.bool, torch.int32, torch.int64, torch.float16, torch.float64]
)
@pytest.mark.parametrize("observation", cases(default=[torch.float16, torch.uint16], also=[torch.int16]))
def test_rewards_of_torchrl_envs_have_their_dtypes(reward, observation):
    def make():
        return Paying(reward, observation)

    def run(env):
        root, seen = env.reset(), []
        for _ in range(6):
            data, root = env.step_and_maybe_reset(root.set("action", torch.ones(N, 2).to(observation)))
            seen += [data.clone(), root.clone()]
        return seen

    pool, reference = PoolEnv(make, N, num_workers=0), SerialEnv(N, make)
    assert pool.reward_spec == reference.reward_spec
    assert_same(run(pool), run(reference))


def test_dtypes_that_numpy_has_not_are_refused():
    with pytest.raises(EnvFailure, match=r"expected one of the dtypes .*, got bfloat16"):
        PoolEnv(lambda: Paying(torch.float32, torch.bfloat16), N, num_workers=0)


@pytest.mark.parametrize("dtype", cases(default=["uint16", "uint32"], also=["float16", *OTHERS]))
def test_fused_transforms_leave_what_they_have_no_stages_for(dtype):
    """They are TorchRL's then, and the results the same."""
    torch_dtype = getattr(torch, dtype)
    makers = [
        StepCounter,
        lambda: FlattenObservation(-1, -1, in_keys=["many"]),
        lambda: DTypeCastTransform(torch_dtype, torch.float64, in_keys=["many"]),
    ]
    if dtype == "float16":
        makers += [
            lambda: SignTransform(in_keys=["many"]),
            lambda: ObservationNorm(0.5, 2.0, in_keys=["many"]),
        ]
    for transform in makers:

        def make(transform=transform):
            return TransformedEnv(PoolEnv(lambda: Numbers(dtype), N, num_workers=0), transform())

        fused, plain = fuse(make()), make()
        assert_same(played(fused), played(plain))
