"""The same transformed pool, run by TorchRL and fused."""

import pytest
from torchrl.envs import Compose, TransformedEnv

import torchrl_pool
from torchrl_pool import PoolEnv


def as_it_is(env):
    return env


WAYS = {"torchrl": as_it_is, "fused": torchrl_pool.fuse}


def transformed(way, task, *transforms, num_envs=1, seed=0, **options):
    """A pool under these transforms."""
    pool = PoolEnv(task, num_envs, seed=seed, **options)
    return way(TransformedEnv(pool, transforms[0] if len(transforms) == 1 else Compose(*transforms)))


def counted(td):
    """A policy for Count-v0 that counts at every step."""
    action = td["observation"].new_zeros((*td.batch_size, 2), dtype=int)
    action[..., 1] = 1
    return td.set("action", action)


def needs_torchvision():
    pytest.importorskip("torchvision", reason="TorchRL's CenterCrop needs torchvision")
