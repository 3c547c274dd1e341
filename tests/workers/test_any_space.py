"""Envs of any space: arrays of a SyncVectorEnv, tensors of a SerialEnv, the contract of a pool."""

from contextlib import closing
from functools import partial

import numpy as np
from any_space import (
    ANY_ACTION,
    ANY_OBSERVATION,
    NAMES,
    OF_GYM_ENV,
    SHAPES,
    AnyEnv,
    boxes,
    choices,
    drawn,
    nested,
)
from cases import LONG
from comparing import assert_holds_steps
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torchrl.envs import GymWrapper, SerialEnv

from torchrl_pool import PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.testing import check_pool

N = 2
examples = partial(
    settings,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate],
)
# Names that tensordicts have for themselves, or cannot have: no tensordict is seen here.
KEYS = [
    "reward", "action", "observation", "state", "pixels", "done", "terminated", "truncated", "next", "info",
    "exact_reward", "step_count", "episode_reward", "is_init", "respawned", "_reset", "a/b", "a.b", "/", "",
    "with space", "0", 0,
]  # fmt: skip
ANY_KEY = nested(boxes() | choices(), st.sampled_from(KEYS) | NAMES)


def batch_of(space, random):
    rows = [drawn(space, random) for _ in range(N)]
    return concatenate(space, rows, create_empty_array(space, N))


@examples(max_examples=2_000 if LONG else 150)
@given(observation=ANY_KEY, action=ANY_KEY)
def test_arrays_are_those_of_sync_vector_env(observation, action):
    make = partial(AnyEnv, observation, action)
    with closing(PoolVectorEnv(make, N)) as ours, closing(SyncVectorEnv([make] * N)) as theirs:
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert data_equivalence(ours.reset(seed=3)[0], theirs.reset(seed=3)[0], exact=True)
        random = np.random.default_rng(0)
        for _ in range(6):
            actions = batch_of(action, random)
            for actual, expected in zip(ours.step(actions)[:4], theirs.step(actions)[:4], strict=True):
                assert data_equivalence(actual, expected, exact=True)


# What GymEnv can read: no other integers, likes of some dimensions in a tuple, no infinite random actions.
LEAVES = choices(starts=False, unlike_rows=False)
BOX = spaces.Box(-1, 1, (2,))
# GymEnv calls a "state" an observation where there is none.
STATES = st.sampled_from([spaces.Dict(state=BOX, other=BOX), spaces.Dict(state=BOX, observation=BOX)])


def of_gym_env(keys, **given):
    given["dtypes"] = OF_GYM_ENV
    arrays = boxes(shapes=SHAPES.filter(bool), **given)
    return boxes(**given) | nested(arrays | LEAVES, keys, likes_only=True)


SHOWN = STATES | of_gym_env(NAMES)
TAKEN = of_gym_env(NAMES.map(str.upper), largest=2**10, infinite=False)


@examples(max_examples=2_000 if LONG else 150)
@given(observation=SHOWN, action=TAKEN, categorical=st.booleans(), wraps=st.booleans())
def test_tensors_are_those_of_serial_env(observation, action, categorical, wraps):
    encoding = {"categorical_action_encoding": categorical}

    def wrapped():
        return GymWrapper(AnyEnv(observation, action, looks=False), **encoding)

    make = wrapped if wraps else partial(AnyEnv, observation, action)
    with closing(PoolEnv(make, N, **({} if wraps else encoding))) as pool:
        serial = SerialEnv(N, wrapped)
        for kind in ("observation", "action", "reward", "done"):
            ours, theirs = (getattr(env, f"full_{kind}_spec") for env in (pool, serial))
            assert dict(ours.items(True, True)) == dict(theirs.items(True, True))
        assert_holds_steps(pool, serial, 6)
        serial.close()


@examples(max_examples=100 if LONG else 10)
@given(observation=ANY_OBSERVATION, action=ANY_ACTION)
def test_pools_of_them_keep_the_contract(observation, action):
    make = partial(PoolEnv, partial(AnyEnv, observation, action))
    checks = ["auto-reset", "masks", "states", "ownership", "async calls", "placements"]
    places = [{"num_workers": 0}, {"num_workers": 1}]
    assert check_pool(make, num_envs=3, steps=8, placements=places, checks=checks) == checks
