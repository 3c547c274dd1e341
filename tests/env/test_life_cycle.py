"""Starting, closing, reopening and copying."""

import pytest
import torch
from cases import cases
from small_envs import MAKERS, N, cartpole
from tensordict.nn import TensorDictModule
from torchrl.envs import StepCounter, TransformedEnv

from torchrl_pool import MujocoPool, PoolCollector, PoolEnv


def test_a_closed_env_says_who_closed_it():
    env = cartpole()
    for _ in PoolCollector(TransformedEnv(env, StepCounter()), frames_per_batch=N, total_frames=2 * N):
        pass
    with pytest.raises(RuntimeError, match="was closed by its collector, which has all of its total_frames"):
        env.rand_step()
    env.reset()
    env.close()
    with pytest.raises(RuntimeError, match=r"was closed: reset\(\) starts it again"):
        env.render()
    env.reset()
    PoolCollector(env, frames_per_batch=N, total_frames=2 * N).shutdown()
    with pytest.raises(RuntimeError, match="was closed by its collector's shutdown"):
        env.get_state()
    with pytest.raises(RuntimeError, match="before the first step"):
        cartpole().render()


@pytest.mark.parametrize("collect", cases([True, False]))
def test_a_policy_in_float32_hears_of_observations_in_float64(collect):
    env = PoolEnv("CartPole-v1", 2, obs_dtype=torch.float64)
    policy = TensorDictModule(torch.nn.Linear(4, 2), ["observation"], ["action"])

    def run():
        return PoolCollector(env, policy, frames_per_batch=2) if collect else env.rollout(2, policy)

    with pytest.raises(RuntimeError, match="dtype") as raised:
        run()
    assert any("PoolEnv(…, obs_dtype=torch.float32)" in note for note in raised.value.__notes__)
    with pytest.raises(RuntimeError, match="shapes") as raised:
        env.rollout(2, TensorDictModule(torch.nn.Linear(3, 2).double(), ["observation"], ["action"]))
    assert not any("obs_dtype" in note for note in getattr(raised.value, "__notes__", ()))


@MAKERS
def test_a_with_block_closes_the_env(make):
    with make(seed=0) as env:
        env.rollout(2)
        assert not env.is_closed
    assert env.is_closed
    with pytest.raises(KeyError), make() as env:
        env.reset()["no such entry"]
    assert env.is_closed


@pytest.mark.parametrize(
    "make", cases([cartpole, lambda: MujocoPool("ant.xml", 2)]), ids=["PoolEnv", "MujocoPool"]
)
def test_closing_twice_is_refused_where_one_asks_for_it(make):
    env = make()
    env.reset()
    env.close(raise_if_closed=True)
    with pytest.raises(RuntimeError, match="is closed already"):
        env.close(raise_if_closed=True)
    env.reset()  # reopens it
    env.close(raise_if_closed=True)


@pytest.mark.parametrize(
    ("task", "options", "num_threads", "num_workers"),
    cases(
        default=[
            ("CartPole-v1", {"num_threads": 2}, 2, 0),
            ("gymnasium:CartPole-v1", {"num_workers": 0}, 1, 0),
        ],
        also=[
            ("gymnasium:CartPole-v1", {"num_workers": 2}, 1, 2),
            ("gymnasium:CartPole-v1", {"num_workers": 9}, 1, N),
        ],
    ),
    ids=str,
)
def test_a_pool_tells_its_threads_and_its_worker_processes(task, options, num_threads, num_workers):
    with PoolEnv(task, N, **options) as env:
        assert (env.num_threads, env.num_workers) == (num_threads, num_workers)
        env.rollout(2)


def test_closing_a_transformed_env_closes_the_pool():
    base = cartpole()
    env = TransformedEnv(base, StepCounter())
    env.reset()
    env.close()
    assert base.is_closed
    assert env.rollout(3).shape == (N, 3)
