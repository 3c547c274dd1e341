"""Seeds: through set_seed and through the constructor."""

import torch
from comparing import assert_td_equal
from small_envs import MAKERS, N, cartpole, fall_right

from torchrl_pool import PoolEnv, single_envs


@MAKERS
def test_seeds_determine_everything(make):
    def play(seed):
        env = make()
        env.set_seed(seed)
        torch.manual_seed(3)
        first = env.reset()
        return first, env.rollout(50, break_when_any_done=False)

    first, data = play(1)
    again_first, again_data = play(1)
    assert_td_equal(first, again_first)
    assert_td_equal(data, again_data)
    other_first, other_data = play(2)
    assert not torch.equal(first["observation"], other_first["observation"])
    assert not torch.equal(data["next", "observation"], other_data["next", "observation"])


def test_seed_argument_is_set_seed():
    a, b = cartpole(seed=4), cartpole()
    b.set_seed(4)
    assert_td_equal(a.reset(), b.reset())


def test_seeding_a_running_env_restarts_its_streams():
    env = cartpole(seed=0)
    first = env.rollout(30, fall_right, break_when_any_done=False)
    env.set_seed(0)
    assert_td_equal(env.rollout(30, fall_right, break_when_any_done=False), first)


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
