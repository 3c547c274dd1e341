"""Envs of Python in workers give what TorchRL's SerialEnv gives, bit for bit."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from pettingzoo_envs import Chase
from python_envs import WHERE, Dictionary, Sampled
from torchrl.envs import (
    GymEnv,
    GymWrapper,
    PettingZooWrapper,
    SerialEnv,
)

from torchrl_pool import EnvFailure, PoolEnv


def wrapped(make):
    return GymWrapper(make())


def vectors():
    return PettingZooWrapper(Chase(), categorical_actions=False)


@pytest.mark.parametrize("make", [vectors, partial(GymEnv, "CartPole-v1"), Chase])
def test_numbers_are_refused_where_an_env_has_vectors(make):
    open_pool = partial(PoolEnv, make, 1, num_workers=0, categorical_action_encoding=True)
    if make is Chase:
        assert open_pool().rollout(2)["hare", "action"].shape == (1, 2, 1)
    else:
        with pytest.raises(
            TypeError, match=r"categorical_action_encoding: .*action' of this env of TorchRL is"
        ):
            open_pool()


def bounded(high):
    return Sampled(spaces.Box(-high, high, (3,)), spaces.Box(-high, high, (2,)))


def bounded_of_torchrl(high):
    return GymWrapper(bounded(high))


@pytest.mark.parametrize("make", cases([bounded, bounded_of_torchrl]), ids=["Gymnasium", "GymEnv"])
@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_envs_of_a_list_have_bounds_of_their_own(make, where):
    """Each its own, in specs, in random actions and where actions are checked; like ones share them."""
    highs = [1.0, 0.5, 1.0]
    pool = PoolEnv([partial(make, high) for high in highs], 3, check_actions="strict", **where)
    serial = SerialEnv(3, [partial(bounded_of_torchrl, high) for high in highs])
    for name, key in (("full_action_spec", "action"), ("full_observation_spec", "observation")):
        ours, theirs = getattr(pool, name)[key].space, getattr(serial, name)[key]
        for env in range(3):
            assert torch.equal(ours.low[env], theirs[env].space.low), (name, env)
            assert torch.equal(ours.high[env], theirs[env].space.high), (name, env)
    assert len(set(pool._configs)) == 2
    pool.rollout(20)
    action = torch.tensor([[0.9, 0.9], [0.6, 0.4], [0.9, 0.9]])
    with pytest.raises(ValueError, match=r"env 1, element 0: expected a number in \[-0.5, 0.5\], got 0.6"):
        pool.step(pool.reset().set("action", action))
    pool.close()


class Answering(Sampled):
    """Its observations are what it is told, its rewards too."""

    def __init__(self, space, observation, reward=0.0):
        super().__init__(space)
        self.observation, self.reward = observation, reward

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        return self.observation, self.reward, False, False, {}


ONE, BYTES, INTS = (
    spaces.Box(-9, 9, (1,)),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Box(-9, 9, (2,), np.int32),
)


@pytest.mark.parametrize(
    ("space", "observation", "is_taken"),
    cases(
        default=[
            (ONE, np.array(0.5), True),
            (BYTES, np.array([3, 256]), False),
            (INTS, np.array([3.5, -4.0]), False),
            (INTS, [3.5, -4.0], False),
            (spaces.Box(0, 1, (2,), bool), np.array([1, 2]), False),
        ],
        also=[
            (ONE, 0.5, True),
            (ONE, np.float32(0.5), True),
            (ONE, torch.tensor([0.5]), True),
            (spaces.Box(-9, 9, (2, 2)), torch.ones(2, 2, dtype=torch.float64), True),
            (BYTES, np.array([3, 255]), True),
            (BYTES, np.array([3, -1], np.int8), False),
            (INTS, np.array([3.0, -4.0]), True),
            (INTS, np.array([1, 1 << 40]), False),
            (spaces.MultiBinary(2), np.array([True, False]), True),
            (spaces.Box(0, 1, (2,), bool), np.array([1, 0]), True),
        ],
    ),
)
def test_observations_of_other_dtypes(space, observation, is_taken):
    """Those are taken that lose nothing, with the value that SerialEnv gives them."""
    pool = PoolEnv(lambda: Answering(space, observation), 1, num_workers=0)
    if not is_taken:
        with pytest.raises(EnvFailure, match=r"entry 'observation': expected .* \[2\], got "):
            pool.reset()
        return
    ours, theirs = pool.reset(), SerialEnv(1, lambda: GymWrapper(Answering(space, observation))).reset()
    assert ours["observation"].dtype is theirs["observation"].dtype
    assert torch.equal(ours["observation"], theirs["observation"])


@pytest.mark.parametrize("make", cases([Answering, lambda *given: GymWrapper(Answering(*given))]))
def test_rewards_are_never_negative_zeros(make):
    """As GymEnv adds them up from 0, also the sum of an episode."""
    pool = PoolEnv(
        lambda: make(ONE, np.zeros(1, np.float32), -0.0), 1, num_workers=0, info_keys=["episode_reward"]
    )
    step = pool.rollout(1)["next"]
    assert not torch.signbit(step["reward"]).any()
    assert not torch.signbit(step["episode_reward"]).any()


def test_seeds_and_options_of_one_reset():
    """As Gymnasium's vector envs take them: env i gets seed + i, and its own options."""
    pool = PoolEnv(partial(gymnasium.make, "CartPole-v1"), 3, num_workers=2)
    single = gymnasium.make("CartPole-v1")
    root = pool.reset(seed=7, options=[None, {"low": 0.2, "high": 0.3}, None])
    for env, options in enumerate([None, {"low": 0.2, "high": 0.3}, None]):
        observation, _ = single.reset(seed=7 + env, options=options)
        assert root["observation"][env].tolist() == observation.tolist()
    assert (pool.reset()["observation"].abs() <= 0.05).all()
    pool.close()


def test_infos_limits_and_encodings():
    pool = PoolEnv(
        Dictionary,
        4,
        num_workers=2,
        max_episode_steps=3,
        info_keys=["count", "deep/half", "sometimes", "step_count", "episode_reward"],
        categorical_action_encoding=True,
    )
    rollout = pool.rollout(7, break_when_any_done=False)["next"]
    assert rollout["count"][0].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rollout["deep", "half"][0].flatten().tolist() == [0.5, 1, 1.5, 0.5, 1, 1.5, 0.5]
    odd, even = [0, 1, 2], [0, 0, 0]
    assert rollout["sometimes"][0].tolist() == [odd, even, odd, odd, even, odd, odd]
    assert rollout["truncated"][0].flatten().tolist() == [False, False, True, False, False, True, False]
    assert rollout["step_count"][0].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rollout["episode_reward"][0].flatten().tolist() == [0.5, 1.5, 3, 0.5, 1.5, 3, 0.5]
    pool.close()
