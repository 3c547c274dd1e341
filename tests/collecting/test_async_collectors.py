"""Pools in the collectors of TorchRL that step envs one by one, in the background or on other machines."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gymnasium
import pytest
import torch
from cases import cases
from small_envs import fall_right
from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import AsyncBatchedCollector, AsyncCollector
from torchrl.collectors.llm import LLMCollector
from torchrl.envs import AsyncEnvPool, GymEnv
from torchrl.envs.utils import RandomPolicy, check_env_specs

from torchrl_pool import PoolEnv, SingleEnv, single_envs

N = 4


class TiltPolicy(nn.Module):
    """Pushes the cart to where the pole leans, for one env as for many."""

    def forward(self, tensordict: TensorDictBase):
        leans_right = tensordict["observation"][..., 2] >= 0
        return tensordict.set("action", torch.stack([~leans_right, leans_right], -1).long())


def cartpole(**options):
    return PoolEnv("CartPole-v1", N, max_episode_steps=23, **options)


def rollouts(seed, steps):
    """What each env goes through, from the second draw of its stream on."""
    env = cartpole(seed=seed)
    return env.rollout(steps, TiltPolicy(), break_when_any_done=False)


def assert_goes_on(trajectory):
    """One env's steps ``[T]`` follow each other."""
    goes_on = ~trajectory["next", "done"][:-1, 0]
    assert torch.equal(
        trajectory["next", "observation"][:-1][goes_on], trajectory["observation"][1:][goes_on]
    )


# ---- envs one by one


def test_single_envs_have_specs():
    env = cartpole(seed=0)
    for make in single_envs(env):
        check_env_specs(make())
    env.close()


def test_single_envs_give_what_the_pool_gives():
    expected = rollouts(3, 60)
    pool = cartpole(seed=3)
    for i, make in enumerate(single_envs(pool)):
        got = make().rollout(60, TiltPolicy(), break_when_any_done=False)
        for key in ("observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done")):
            assert torch.equal(got[key], expected[i][key])


def test_single_envs_refuse_what_they_do_not_have():
    pool = cartpole()
    with pytest.raises(TypeError, match="takes 'seed' and 'options', got colour"):
        SingleEnv(pool, 1).reset(colour="red")
    for index in (N, -1):
        with pytest.raises(IndexError, match=f"env_index: expected 0 to 3, got {index}"):
            SingleEnv(pool, index)
    for index in (None, [1], 1.0, True):
        with pytest.raises(TypeError, match="env_index: expected"):
            SingleEnv(pool, index)
    assert SingleEnv(pool, torch.tensor(2)).env_index == 2


@pytest.mark.parametrize("started", cases([False, True]))
@pytest.mark.parametrize("given", cases([{"seed": 7}, {"options": {"low": 0.0, "high": 0.01}}]), ids=str)
def test_a_single_env_is_reset_with_what_gymnasium_takes(started, given):
    pool, others = (cartpole(seed=3) for _ in range(2))
    expected = gymnasium.make("CartPole-v1")
    if started:
        before, _ = pool.reset(), others.reset()
    given = {"seed": 7, **given}
    observation, _ = expected.reset(**given)
    env = SingleEnv(pool, 2)
    root = env.reset(**given)
    assert root["observation"].tolist() == observation.tolist()
    after = env.step(fall_right(root))["next", "observation"]
    assert after.tolist() == expected.step(1)[0].tolist()
    if started:  # the others' episodes go on
        rows = [0, 1, 3]
        step = fall_right(before)[torch.tensor(rows)]
        for one in (pool, others):
            one.async_step_send(step, env_index=rows)
        got, wanted = (one.async_step_recv(3) for one in (pool, others))
        assert torch.equal(got["next", "observation"], wanted["next", "observation"])


@pytest.mark.parametrize("started", cases([False, True]))
def test_single_envs_take_the_seeds_that_gym_env_takes(started):
    """Each its own, whether the pool has started or not; it keeps them when it starts again."""
    reference = GymEnv("CartPole-v1", max_episode_steps=23)
    pool = cartpole(seed=3)
    others = rollouts(3, 1)
    if started:
        pool.reset()
        pool.set_seed(3)
    env = SingleEnv(pool, 2)
    assert env.set_seed(7) == reference.set_seed(7)
    for _ in range(2):
        got = env.rollout(60, TiltPolicy(), break_when_any_done=False)
        expected = reference.rollout(60, TiltPolicy(), break_when_any_done=False)
        assert set(got.keys(True, True)) == set(expected.keys(True, True))
        for key, value in expected.items(True, True):
            assert torch.equal(got[key], value), key
        for i in (0, 1, 3):
            assert torch.equal(SingleEnv(pool, i).reset()["observation"], others[i, 0]["observation"])
        pool.close()
        reference.set_seed(7)
    assert env.set_seed(None) is None
    assert env.set_seed(7, static_seed=True) == 7


def test_a_seed_of_its_own_waits_for_envs_in_flight():
    pool = cartpole(seed=3)
    root = pool.rand_action(pool.reset())
    pool.async_step_send(root[[0]], env_index=[0])
    with pytest.raises(RuntimeError, match="env 0 is in flight"):
        SingleEnv(pool, 0).set_seed(7)
    pool.async_step_recv(1)
    pool.close()
    assert torch.equal(pool.reset()["observation"], cartpole(seed=3).reset()["observation"])


@pytest.mark.parametrize("seed", cases([0, 1]))
def test_single_envs_pass_torchrls_checks_with_a_seed(seed):
    check_env_specs(SingleEnv(cartpole(), 1), seed=seed)
    check_env_specs(SingleEnv(PoolEnv("Pendulum-v1", 2, max_episode_steps=2), 0), seed=seed)


def test_single_envs_may_begin_all_at_once():
    for _ in range(20):
        pool = cartpole(seed=0)
        pool.reset()
        envs = [make() for make in single_envs(pool)]
        together = threading.Barrier(N)

        def first_reset(env, together=together):
            together.wait()
            return env.reset()["observation"]

        with ThreadPoolExecutor(N) as threads:
            observations = list(threads.map(first_reset, envs))
        assert len({tuple(observation.tolist()) for observation in observations}) == N
        pool.close()


# ---- collectors


def test_a_pool_is_an_async_env_pool():
    assert isinstance(cartpole(), AsyncEnvPool)
    assert not isinstance(single_envs(cartpole())[0](), AsyncEnvPool)


def test_async_batched_collector():
    expected = rollouts(5, 100)
    pool = cartpole(seed=5)
    collector = AsyncBatchedCollector(
        create_env_fn=single_envs(pool), policy=TiltPolicy(), frames_per_batch=80, total_frames=400
    )
    try:
        data = torch.cat([batch.clone() for batch in collector])
    finally:
        collector.shutdown()
    assert len(data) == 400
    for i in range(N):
        trajectory = data[data["env_index"].reshape(-1) == i]
        assert len(trajectory) > 20
        steps = min(len(trajectory), 100)
        assert torch.equal(trajectory["observation"][:steps], expected[i]["observation"][:steps])
    pool.close()


def test_llm_collector_takes_a_pool():
    """Its policy need not be a language model, nor its env text."""
    collector = LLMCollector(
        cartpole(seed=0),
        policy=TiltPolicy(),
        dialog_turns_per_batch=2,
        total_dialog_turns=10_000,
        yield_completed_trajectories=True,
    )
    for _, trajectory in zip(range(10), collector, strict=False):
        assert trajectory["next", "done"].sum() == 1
        assert trajectory["next", "done"][-1]
        assert_goes_on(trajectory)
    collector.shutdown()


@pytest.mark.slow  # each process imports TorchRL
def test_async_collector():
    collector = AsyncCollector(
        partial(cartpole, seed=0), TiltPolicy(), frames_per_batch=N * 30, total_frames=N * 90
    )
    try:
        batches = [batch.clone() for batch in collector]
    finally:
        collector.shutdown()
    data = torch.cat(batches, -1)
    assert data.shape == (N, 90)
    for i in range(N):
        assert_goes_on(data[i])
    assert torch.equal(data[:, 0]["observation"], cartpole(seed=0).reset()["observation"])


@pytest.mark.slow  # test_extras.py runs the recipe of one
def test_ray_collector():
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'torchrl_pool[ray]'")
    from torchrl.collectors.distributed import RayCollector

    make = partial(PoolEnv, "CartPole-v1", N, seed=0)  # what Ray's workers can import
    collector = RayCollector(
        [make, make],
        RandomPolicy(make().full_action_spec),
        frames_per_batch=2 * N * 10,
        total_frames=2 * N * 30,
        sync=True,
        num_collectors=2,
        ray_init_config={"num_cpus": 2, "include_dashboard": False, "log_to_driver": False},
        remote_configs={"num_cpus": 1, "num_gpus": 0, "memory": 10**8},
    )
    try:
        frames = 0
        for batch in collector:
            assert batch.shape == (2, N, 10)
            for trajectory in batch.reshape(-1, 10):
                assert_goes_on(trajectory)
            frames += batch.numel()
    finally:
        collector.shutdown()
        ray.shutdown()
    assert frames == 2 * N * 30
