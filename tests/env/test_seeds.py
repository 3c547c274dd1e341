"""Seeds: through set_seed and through the constructor."""

import torch
from small_envs import N, cartpole, fall_right

from torchrl_pool import PoolEnv, single_envs


def test_unseeded_envs_differ():
    a, b = cartpole().reset()["observation"], cartpole().reset()["observation"]
    assert torch.cat([a, b]).unique(dim=0).shape[0] == 2 * N


def test_seeds_of_single_envs_hold_beside_those_of_the_pool():
    """Also after the pool was closed."""
    env = PoolEnv("CartPole-v1", 2, seed=0)
    single_envs(env)[1]().set_seed(9)
    first = env.reset()["observation"]
    env.close()
    assert torch.equal(env.reset()["observation"], first)


def test_static_seed_gives_all_envs_the_same():
    env = cartpole()
    assert env.set_seed(3, static_seed=True) == 3
    assert env.reset()["observation"].unique(dim=0).shape[0] == 1


def test_seeding_leaves_torchs_generator_alone():
    env = cartpole()
    before = torch.get_rng_state()
    env.set_seed(0)
    env.rollout(3, fall_right)
    assert torch.equal(torch.get_rng_state(), before)
