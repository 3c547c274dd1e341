"""Fused envs that travel: pickled, copied, and stepped in processes of their own."""

import copy
import pickle
from functools import partial

import pytest
import torch
from cases import cases
from pipelines import OBS, assert_same
from tensordict.nn import TensorDictModule
from torchrl.collectors import MultiAsyncCollector, MultiSyncCollector
from torchrl.envs import (
    ClipTransform,
    Compose,
    DoubleToFloat,
    ParallelEnv,
    RewardSum,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import FusedEnv, PoolEnv, fuse


def make_env(fused=True, seed=0):
    norm = VecNormV2(OBS, reduce_batch_dims=True)
    transforms = Compose(
        norm, ClipTransform(OBS, low=-10, high=10), RewardSum(), StepCounter(9), DoubleToFloat()
    )
    env = TransformedEnv(PoolEnv("Pendulum-v1", 4, seed=seed), transforms)
    return fuse(env) if fused else env


def turn(env):
    """A policy without draws."""
    return TensorDictModule(lambda observation: observation[..., 1:2], ["observation"], ["action"])


def played(env, steps=20):
    return env.rollout(steps, turn(env), break_when_any_done=False)


@pytest.mark.parametrize("travel", cases([lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy]))
def test_an_env_that_has_not_begun_travels(travel):
    env = make_env()
    env.transform[3].max_steps = 7
    traveller = travel(env)
    assert isinstance(traveller, FusedEnv)
    assert traveller.fusion().num_native == 5
    assert_same(played(traveller), played(env))
    assert (
        traveller.transform[0].loc["observation"].data_ptr() != env.transform[0].loc["observation"].data_ptr()
    )


def test_statistics_travel_with_a_closed_env():
    env = make_env()
    played(env)
    env.close(raise_if_closed=False)
    loc = env.transform[0].loc["observation"].clone()
    assert torch.equal(pickle.loads(pickle.dumps(env)).transform[0].loc["observation"], loc)


def test_a_running_env_says_that_it_cannot_travel():
    env = make_env()
    env.reset()
    with pytest.raises(TypeError, match="while it runs"):
        pickle.dumps(env)
    env.close()


def test_parallel_env_of_fused_envs():
    data = []
    for fused in (True, False):
        env = ParallelEnv(2, partial(make_env, fused), mp_start_method="fork")
        data.append(played(env))
        env.close()
    assert_same(*data, exact=False, in_order=False)


@pytest.mark.slow  # each process imports TorchRL
@pytest.mark.parametrize("cls", [MultiSyncCollector, MultiAsyncCollector])
def test_multi_process_collectors(cls):
    batches = []
    for fused in (True, False):
        makers = [partial(make_env, fused)]
        collector = cls(makers, turn(None), frames_per_batch=64, total_frames=128)
        batches.append(list(collector))
        collector.shutdown()
    assert len(batches[0]) == len(batches[1]) == 2
    for one, other in zip(*batches, strict=True):
        assert_same(one, other, exact=False, in_order=False)
