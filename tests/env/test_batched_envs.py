"""Pools as the parts of TorchRL's batched envs, and as what an EnvCreator makes."""

import gc
from functools import partial

import pytest
import torch
from cases import cases
from comparing import differing_keys
from small_envs import N, fall_right
from torchrl.envs import EnvCreator, ParallelEnv, SerialEnv

from torchrl_pool import PoolEnv


@pytest.mark.parametrize("batched", cases([SerialEnv, partial(ParallelEnv, mp_start_method="fork")]))
def test_pools_in_a_batched_env_equal_one_pool(batched):
    """The chain of seeds runs through the pools as through the envs of one."""
    gc.collect()
    one = PoolEnv("CartPole-v1", 4, device="cpu")
    many = batched(2, partial(PoolEnv, "CartPole-v1", 2, device="cpu"))
    try:
        assert many.set_seed(0) == one.set_seed(0)
        a = one.rollout(30, fall_right, break_when_any_done=False)
        b = many.rollout(30, fall_right, break_when_any_done=False)
        assert b.shape == (2, 2, 30)
        assert not differing_keys(a, b.flatten(0, 1))
    finally:
        many.close(raise_if_closed=False)


@pytest.mark.slow  # each process imports TorchRL
def test_spawned_parallel_env():
    env = ParallelEnv(2, EnvCreator(partial(PoolEnv, "Pendulum-v1", 3)), mp_start_method="spawn")
    try:
        assert env.batch_size == (2, 3)
        env.set_seed(0)
        data = env.rollout(10)
        assert data.shape == (2, 3, 10)
        expected = PoolEnv("Pendulum-v1", 6, seed=0).reset()["observation"]
        assert torch.equal(data["observation"][:, :, 0].flatten(0, 1), expected)
    finally:
        env.close(raise_if_closed=False)


def test_env_creator():
    creator = EnvCreator(lambda: PoolEnv("CartPole-v1", N, seed=0))
    a, b = creator(), creator()
    assert a is not b
    assert torch.equal(a.reset()["observation"], b.reset()["observation"])
    assert creator.meta_data.batch_size == (N,)
