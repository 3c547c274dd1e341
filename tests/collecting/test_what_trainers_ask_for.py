"""What a Trainer asks a collector for: PoolCollector answers as TorchRL's Collector does."""

import pytest
import torch
from cases import cases
from collecting import FRAMES, N, assert_equal_batches, categorical_actor
from torchrl.collectors import Collector
from torchrl.data import (
    LazyTensorStorage,
    ReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers.samplers import SliceSampler

from torchrl_pool import PoolCollector, PoolEnv

BATCHES = 3
pytestmark = [
    pytest.mark.filterwarnings("ignore:split_trajs=True:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using WeightUpdaterBase:DeprecationWarning"),
]


def make(cls, **options):
    torch.manual_seed(0)
    env = PoolEnv("CartPole-v1", N, seed=0)
    if "policy_factory" not in options:
        options["policy"] = categorical_actor(env)
    return cls(env, frames_per_batch=FRAMES, total_frames=BATCHES * FRAMES, **options)


def of_both(found):
    return [found(cls) for cls in (PoolCollector, Collector)]


@pytest.mark.parametrize("buffered", cases([False, True]))
def test_hooks(buffered):
    def calls(cls):
        made = []
        options = {"replay_buffer": ReplayBuffer(storage=LazyTensorStorage(64))} if buffered else {}
        options["pre_collect_hook"] = lambda: made.append("before")
        options["post_collect_hook"] = lambda batch: made.append(tuple(batch.shape))
        list(make(cls, **options))
        return made

    got, expected = of_both(calls)
    assert got == expected
    assert len(got) == 2 * BATCHES


def rows(batch):
    return batch.reshape(-1)


@pytest.mark.parametrize("options", [{"split_trajs": True}, {"postproc": rows}], ids=["split_trajs", "rows"])
def test_replay_buffers_get_what_is_made_of_batches(options):
    def stored(cls):
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(BATCHES * FRAMES), batch_size=8)
        list(make(cls, replay_buffer=buffer, extend_buffer=True, **options))
        return buffer[:]

    got, expected = of_both(stored)
    assert_equal_batches([got], [expected])


def test_slices_of_trajectories_are_sampled():
    def sampled(cls):
        sampler = SliceSampler(slice_len=4, traj_key=("collector", "traj_ids"), strict_length=False)
        storage = LazyTensorStorage(BATCHES * FRAMES, ndim=2)
        buffer = TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=16)
        list(make(cls, replay_buffer=buffer, extend_buffer=True))
        torch.manual_seed(0)
        return buffer.sample()

    got, expected = of_both(sampled)
    assert_equal_batches([got], [expected])


def test_prioritized_replay():
    try:
        TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=LazyTensorStorage(4))
    except RuntimeError as error:
        pytest.skip(f"TorchRL has no sum trees here: {error}")

    def stored(cls):
        buffer = TensorDictPrioritizedReplayBuffer(
            alpha=0.6, beta=0.4, storage=LazyTensorStorage(BATCHES * FRAMES), batch_size=8
        )
        list(make(cls, replay_buffer=buffer, extend_buffer=True, postproc=rows))
        return buffer[:]

    got, expected = of_both(stored)
    assert_equal_batches([got], [expected])


def test_a_policy_of_a_factory():
    def collect(cls):
        return list(make(cls, policy_factory=lambda: categorical_actor(PoolEnv("CartPole-v1", N))))

    got, expected = of_both(collect)
    assert_equal_batches(got, expected)


def test_a_seed_that_a_trainer_sets():
    def seeded(cls):
        collector = make(cls)
        following = collector.set_seed(3)
        batch = next(iter(collector))
        collector.shutdown()
        return batch.set("following", torch.full(batch.shape, following))

    got, expected = of_both(seeded)
    assert_equal_batches([got], [expected])
