"""What an env or a policy that goes wrong costs a PoolCollector: one batch."""

import time

import pytest
import torch
from building import load_fault_plugin
from cases import cases
from tensordict import TensorDictBase

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv


@pytest.mark.parametrize("double_buffered", cases([False, True]))
def test_a_failed_env_costs_one_batch(double_buffered):
    load_fault_plugin()
    env = PoolEnv(
        "Fault-v0", 4, seed=0, env_options=[{}, {}, {"fault": "throw", "at": 6}, {}], max_episode_steps=7
    )
    collector = PoolCollector(env, None, frames_per_batch=4 * 5, double_buffered=double_buffered)
    batches = iter(collector)
    assert next(batches)["next", "observation"][2, :, 1].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(EnvFailure, match=r"env 2 .* in step 6") as caught:
        next(batches)
    assert caught.value.env_index == [2]
    batch = next(iter(collector))  # every env begins a new episode, and a new trajectory
    assert (batch["next", "observation"][:, :, 1] == torch.arange(1.0, 6)).all()
    assert len(batch["collector", "traj_ids"].unique()) == 4
    collector.shutdown()


@pytest.mark.parametrize("double_buffered", cases([False, True]))
def test_a_policy_that_raises_costs_one_batch(double_buffered):
    env = PoolEnv("CartPole-v1", 4, seed=0)
    actions = env.rand_action()["action"]
    calls = 0

    def policy(tensordict):
        nonlocal calls
        calls += len(tensordict)
        if calls == 4 * 14:
            raise KeyboardInterrupt
        return tensordict.set("action", actions[: len(tensordict)])

    collector = PoolCollector(
        env,
        policy,
        frames_per_batch=4 * 5,
        double_buffered=double_buffered,
        trust_policy=True,
        track_policy_version=True,
    )
    with pytest.raises(KeyboardInterrupt):
        list(collector)
    env.get_state()  # the pool is at rest
    batch = next(iter(collector))
    assert torch.equal(batch["observation"][:, 1:], batch["next", "observation"][:, :-1])
    collector.shutdown()


@pytest.mark.parametrize("double_buffered", cases([False, True]))
def test_the_policy_must_write_the_same_entries_at_every_step(double_buffered):
    env = PoolEnv("CartPole-v1", 4, seed=0)
    actions = env.rand_action()["action"]
    for value in (None, torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.float64)):
        calls = 0

        def policy(tensordict: TensorDictBase, value=value):
            nonlocal calls
            calls += 1
            n = len(tensordict)
            out = tensordict.empty().set("action", actions[:n])
            entry = torch.zeros(1, 1) if calls < 15 else value
            return out if entry is None else out.set("extra", entry.expand(n, *entry.shape[1:]))

        collector = PoolCollector(
            env, policy, frames_per_batch=4 * 20, double_buffered=double_buffered, trust_policy=True
        )
        if value is None:  # the carrier still has the last one, as in Collector
            assert not next(iter(collector))["extra"].any()
        else:
            with pytest.raises(
                ValueError, match=r"'extra': expected torch.float32 .* at every step, as at first"
            ):
                next(iter(collector))
        collector.shutdown(close_env=False)


@pytest.mark.parametrize("double_buffered", [True, False])
def test_an_env_that_hangs_costs_a_batch(double_buffered):
    """What its thread writes when it comes back lands in memory that nobody has any more."""
    load_fault_plugin()
    hangs = {"fault": "sleep", "at": 3, "seconds": 3.0}
    env = PoolEnv("Fault-v0", 4, seed=0, num_threads=2, step_timeout=1.0, env_options=[{}, hangs, {}, {}])
    collector = PoolCollector(env, None, frames_per_batch=4 * 2, double_buffered=double_buffered)
    batches = iter(collector)
    next(batches)
    with pytest.raises(EnvFailure, match=r"env 1 .* has not come back") as caught:
        next(batches)
    assert caught.value.hung == [1]
    while True:
        try:
            env.reset()
            break
        except RuntimeError:  # it still hangs
            time.sleep(0.05)
    batch = next(iter(collector))
    assert (batch["next", "observation"][:, :, 1] == torch.tensor([1.0, 2.0])).all()
    collector.shutdown()
