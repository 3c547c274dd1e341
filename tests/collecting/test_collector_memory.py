"""PoolCollector's batches belong to the consumer; their memory is used again once nobody has it."""

import gc

import torch
from collecting import FRAMES, N, categorical_actor, collect

from torchrl_pool import PoolCollector, PoolEnv


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
    frames = N * 2048
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
