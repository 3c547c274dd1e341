"""Pools in TorchRL's own collectors."""

from functools import partial

import pytest
import torch
from cases import cases
from comparing import differing_keys
from small_envs import N, cartpole, fall_right, lean
from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import PoolEnv


@pytest.mark.parametrize("device", cases([None, "cpu"]))
def test_collector_equals_that_of_serial_env(device):
    def collect(env):
        collector = Collector(env, lean, frames_per_batch=3 * 40, total_frames=3 * 40 * 4)
        collector.set_seed(1)
        # Collectors reset at their construction; after the seed they must again.
        collector.reset()
        batches = [batch.clone() for batch in collector]
        collector.shutdown()
        return torch.cat(batches, -1)

    ours = collect(PoolEnv("CartPole-v1", 3, device=device))
    reference = collect(SerialEnv(3, lambda: GymEnv("CartPole-v1"), device=device))
    assert ours.shape == (3, 160)
    assert ours["next", "done"].any()
    assert not differing_keys(ours, reference)


@pytest.mark.parametrize("cls", [MultiSyncCollector, MultiAsyncCollector])
def test_collectors_in_other_processes(cls):
    is_sync = cls is MultiSyncCollector
    collector = cls(
        [partial(cartpole, seed=i) for i in range(2)],
        fall_right,
        frames_per_batch=N * 20 * (2 if is_sync else 1),
        total_frames=N * 20 * 4,
        **({"cat_results": "stack"} if is_sync else {}),
    )
    try:
        first = []
        frames = 0
        for batch in collector:
            assert batch.shape == ((2, N, 20) if is_sync else (N, 20))
            goes_on = ~batch["next", "done"][..., :-1, 0]
            last = batch["next", "observation"][..., :-1, :]
            assert torch.equal(last[goes_on], batch["observation"][..., 1:, :][goes_on])
            assert not goes_on.all()
            first.extend(batch[..., 0]["observation"].reshape(-1, N, 4))
            frames += batch.numel()
        assert frames == N * 20 * 4
    finally:
        collector.shutdown()
    # Each worker's first batch begins as its pool does alone.
    for seed in range(2):
        expected = cartpole(seed=seed).reset()["observation"]
        assert any(torch.equal(observation, expected) for observation in first)
