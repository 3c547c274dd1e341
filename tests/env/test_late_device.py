"""Every road to a device and back, on a stand-in that shows a missing wait as wrong data: late_device.py."""

import pytest
import torch
from cases import cases
from late_device import CUDA, Event, LateDevice, LateTensor
from tensordict.nn import TensorDictModule
from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import PoolCollector, PoolEnv, fuse
from torchrl_pool._env.transfers import Uploads

N, T = 6, 5


@pytest.fixture(params=[False, True], ids=["late", "eager_copies"])
def device(request, monkeypatch):
    with LateDevice(monkeypatch, request.param) as mode:
        yield mode


def make_env(device, **options):
    return PoolEnv(
        "CartPole-v1",
        N,
        seed=0,
        num_threads=2,
        device=device,
        max_episode_steps=4,
        categorical_action_encoding=True,
        info_keys=["step_count"],
        **options,
    )


def choose(observation, step_count):
    return (observation[..., 2] > 0).long() ^ (step_count[..., 0] % 2), observation.sum(-1, True) * 3


def make_policy():
    return TensorDictModule(choose, ["observation", "step_count"], ["action", "score"])


def trajectory(env, steps=12, waits=None):
    root, found = env.reset(), []
    if waits is not None:
        waits.clear()  # EnvBase.reset looks at flags
    for _ in range(steps):
        root = make_policy()(root)
        step, root = env.step_and_maybe_reset(root)
        found.append((step, root))
    return found


def assert_same(mode, ours, theirs):
    keys = set(theirs.keys(True, True))
    assert set(ours.keys(True, True)) == keys
    for key in keys:
        assert torch.equal(mode.host(ours[key]), theirs[key]), key


def with_counters(env):
    return fuse(TransformedEnv(env, Compose(RewardSum(), StepCounter(3))))


@pytest.mark.parametrize("dress", cases([lambda env: env, with_counters]), ids=["pool", "fused"])
def test_steps(device, dress):
    """Each waits once, for the action, and for what a fused env carries on."""
    env = dress(make_env("cuda:0"))
    found = trajectory(env, waits=device.waits)
    waits = list(device.waits)
    for ours, theirs in zip(found, trajectory(dress(make_env("cpu"))), strict=True):
        for got, expected in zip(ours, theirs, strict=True):
            assert all(value.device == CUDA for value in got.values(True, True))
            assert_same(device, got, expected)
    assert waits == ["event"] * 12


def batches(env_device, policy_device, storing_device, **options):
    collector = PoolCollector(
        make_env(env_device),
        make_policy(),
        frames_per_batch=N * T,
        total_frames=N * T * 3,
        policy_device=policy_device,
        trust_policy=True,
        storing_device=storing_device,
        **options,
    )
    found = list(collector)
    collector.shutdown()
    return found


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("storing_device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("policy_device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("env_device", ["cpu", "cuda:0"])
def test_batches(device, env_device, policy_device, storing_device, groups):
    ours = batches(env_device, policy_device, storing_device, double_buffered=groups)
    theirs = batches("cpu", "cpu", "cpu")
    for got, expected in zip(ours, theirs, strict=True):
        assert all(value.device == torch.device(storing_device) for value in got.values(True, True))
        assert_same(device, got, expected)


def test_a_missing_wait_shows(monkeypatch):
    """The stand-in is worth its name: without the waits the data is wrong."""
    mistakes = {
        "the batch is read before it is there": (Uploads, "finish", lambda self, whole: None),
        "the action is read before it is there": (Event, "synchronize", lambda self: None),
        "memory is given back before it is read": (LateTensor, "record_stream", lambda self, stream: None),
    }
    expected = batches("cpu", "cpu", "cpu")

    def compare(mode, what):
        for got, wanted in zip(batches("cuda:0", "cuda:0", "cuda:0"), expected, strict=True):
            assert_same(mode, got, wanted)
        pytest.fail(what, pytrace=False)

    for what, mistake in mistakes.items():
        with monkeypatch.context() as patch, LateDevice(patch, mistake[1] == "record_stream") as mode:
            patch.setattr(*mistake)
            with pytest.raises((AssertionError, ValueError)):
                compare(mode, what)


def test_what_was_written_to_is_not_taken_for_the_copy(device):
    """A policy that changes an observation in place: the batch holds what it made of it."""

    def change(observation):
        return (observation.mul_(2)[..., 2] > 0).long()

    found = []
    for name in ("cuda:0", "cpu"):
        policy = TensorDictModule(change, ["observation"], ["action"])
        collector = PoolCollector(make_env(name), policy, frames_per_batch=N * T, total_frames=N * T)
        found += collector
        collector.shutdown()
    assert_same(device, *found)


def test_small_entries_travel_together(device, monkeypatch):
    env = make_env("cuda:0")
    root = make_policy()(env.reset())
    copies = []
    copy = LateDevice._copy

    def counted(mode, to, *rest):
        copies.append(to.device.type)
        return copy(mode, to, *rest)

    monkeypatch.setattr(LateDevice, "_copy", counted)
    data, _ = env.step_and_maybe_reset(root)
    assert copies == ["cpu", "cuda"]  # the action down, all else up
    # Their versions are their own: writing to one is nothing to what gradients keep of another.
    data["next", "done"].fill_(False)
    assert data["next", "observation"]._version == 0
