import pytest
from reference import N

from torchrl_pool import PoolEnv


@pytest.fixture
def make_pool():
    """Makes pools on the CPU, with categorical actions unless told otherwise, and closes them at the end."""
    pools = []

    def make(task, num_envs=N, **kwargs):
        kwargs.setdefault("categorical_action_encoding", True)
        pools.append(PoolEnv(task, num_envs, device="cpu", **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
