"""PoolCollector's batches belong to the consumer; their memory is used again once nobody has it."""

import gc

import torch
from collecting import FRAMES, N, T, categorical_actor, collect, random_actions
from torchrl.collectors import Collector

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._collecting.memory_cache import MemoryCache


def test_batches_are_never_written_again():
    kept = [
        (batch, batch.clone())
        for batch in collect(PoolCollector, "CartPole-v1", categorical_actor, num_batches=4)
    ]
    for batch, copy in kept:
        assert (batch == copy).all()
        batch["observation"].zero_()  # nobody minds


def test_one_entry_that_is_kept_outlives_its_batch():
    env = PoolEnv("CartPole-v1", N, seed=0)
    collector = PoolCollector(env, None, frames_per_batch=FRAMES)
    views = []
    for batch in collector:
        view = batch["next", "observation"][1, 3:5]
        views.append((view, view.clone(), view.numpy()))
        if len(views) == 6:
            break
    for view, copy, array in views:
        assert torch.equal(view, copy)
        assert (array == copy.numpy()).all()
    collector.shutdown()


def addresses_of_observations(use):
    """Where six batches' observations lay, each used once and let go."""
    env = PoolEnv("CartPole-v1", N, seed=0)
    frames = N * 2048  # less than 64 kB of an entry is left to the C library
    batches = iter(PoolCollector(env, None, frames_per_batch=frames))
    addresses = set()
    for _ in range(6):
        batch = next(batches)
        addresses.add(batch["observation"].data_ptr())
        use(batch)
        del batch
        gc.collect()
    return addresses


def test_memory_that_was_let_go_is_used_again():
    assert len(addresses_of_observations(lambda batch: None)) == 1


def test_what_an_entry_shares_its_memory_with_outlives_it():
    kept = []

    def keep(batch):
        for part in (batch["observation"].detach()[2], torch.from_dlpack(batch["observation"])[1].numpy()):
            kept.append((part, torch.as_tensor(part).clone()))

    assert len(addresses_of_observations(keep)) == 6
    assert all(torch.equal(torch.as_tensor(part), copy) for part, copy in kept)


def test_memory_of_other_processes_is_left_to_them():
    """Who sends a batch to another process moves it to shared memory, and may let go of it then."""
    cache = MemoryCache()
    tensor = cache.empty("name", (4, 5), torch.float32)
    tensor.share_memory_()
    address = tensor.data_ptr()
    del tensor
    assert cache.empty("name", (4, 5), torch.float32).data_ptr() != address


def test_what_is_yielded_can_be_resized():
    for cls in (PoolCollector, Collector):
        (batch,) = collect(cls, "CartPole-v1", random_actions, num_batches=1)
        copy = batch["observation"].clone()
        resized = batch["observation"].resize_(2 * N, T, 4)
        assert torch.equal(resized[:N], copy)
    cache = MemoryCache()
    cache.empty("name", (3, 4), torch.float32).resize_(30, 4)
    assert cache.empty("name", (3, 4), torch.float32).untyped_storage().nbytes() == 3 * 4 * 4
