"""Fixtures of several files here."""

import pytest

from torchrl_pool import PoolEnv


@pytest.fixture
def make_pool():
    pools = []

    def make(task="gymnasium:CartPole-v1", num_envs=6, **options):
        pools.append(PoolEnv(task, num_envs, **{"num_workers": 2, **options}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
