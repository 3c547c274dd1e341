"""Steps and batches on a device whose stand-in shows a missing wait as wrong data: see device.py."""

import device as stand_in
import pytest
from cases import cases
from comparing import assert_same
from device import Event, StrictTensor, on_host, strict_device, waits
from tensordict.nn import TensorDictModule
from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import PoolCollector, PoolEnv, fuse
from torchrl_pool._env.transfers import Uploads

N, T = 6, 5


@pytest.fixture(params=[False, True], ids=["late", "eager_copies"], autouse=True)
def device(request):
    with strict_device(late=True, eager_copies=request.param) as device:
        yield device


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
        pin_memory=device != "cpu",
        **options,
    )


def choose(observation, step_count):
    return (observation[..., 2] > 0).long() ^ (step_count[..., 0] % 2), observation.sum(-1, True) * 3


def make_policy():
    return TensorDictModule(choose, ["observation", "step_count"], ["action", "score"])


def trajectory(env, steps=12):
    root, found = env.reset(), []
    waits.clear()  # EnvBase.reset looks at flags
    for _ in range(steps):
        root = make_policy()(root)
        step, root = env.step_and_maybe_reset(root)
        found.append((step, root))
    return found


def host(tensordict):
    return tensordict.apply(on_host, device="cpu")


def with_counters(env):
    return fuse(TransformedEnv(env, Compose(RewardSum(), StepCounter(3))))


@pytest.mark.parametrize("dress", cases([lambda env: env, with_counters]), ids=["pool", "fused"])
def test_steps(device, dress):
    """Each waits once, for the action, and for what a fused env carries on."""
    found = trajectory(dress(make_env(device)))
    waited = list(waits)
    for ours, theirs in zip(found, trajectory(dress(make_env("cpu"))), strict=True):
        for got, expected in zip(ours, theirs, strict=True):
            assert all(value.device == device for value in got.values(True, True))
            assert_same(host(got), expected)
    assert waited == ["event"] * 12


def batches(env_device, policy_device, storing_device, **options):
    collector = PoolCollector(
        make_env(env_device),
        make_policy(),
        frames_per_batch=N * T,
        total_frames=N * T * 3,
        policy_device=policy_device,
        trust_policy=True,
        storing_device=storing_device,
        pin_memory=storing_device != "cpu",
        **options,
    )
    found = list(collector)
    collector.shutdown()
    return found


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("storing_device", ["cpu", "strict"])
@pytest.mark.parametrize("policy_device", ["cpu", "strict"])
@pytest.mark.parametrize("env_device", ["cpu", "strict"])
def test_batches(env_device, policy_device, storing_device, groups):
    ours = batches(env_device, policy_device, storing_device, double_buffered=groups)
    theirs = batches("cpu", "cpu", "cpu")
    for got, expected in zip(ours, theirs, strict=True):
        assert all(value.device.type == storing_device for value in got.values(True, True))
        assert_same(host(got), expected)


MISTAKES = {
    "the batch is read before it is there": (Uploads, "finish", lambda self, whole: None),
    "the action is read before it is there": (Event, "synchronize", lambda self: None),
    "memory is given back before it is read": (StrictTensor, "record_stream", lambda self, stream: None),
}


@pytest.mark.parametrize("mistake", cases(MISTAKES.values()), ids=MISTAKES)
def test_a_missing_wait_shows(mistake, device, monkeypatch):
    """The stand-in is worth its name: without the waits the data is wrong."""
    expected = batches("cpu", "cpu", "cpu")
    monkeypatch.setattr(stand_in._late, "eager_copies", mistake[1] == "record_stream")
    monkeypatch.setattr(*mistake)
    with pytest.raises((AssertionError, ValueError)):
        assert_same([*map(host, batches("strict", "strict", "strict"))], expected)


def test_what_was_written_to_is_not_taken_for_the_copy():
    """A policy that changes an observation in place: the batch holds what it made of it."""

    def change(observation):
        return (observation.mul_(2)[..., 2] > 0).long()

    found = []
    for name in ("cpu", "strict"):
        policy = TensorDictModule(change, ["observation"], ["action"])
        collector = PoolCollector(
            make_env(name),
            policy,
            frames_per_batch=N * T,
            total_frames=N * T,
            pin_memory=name != "cpu",
        )
        found += collector
        collector.shutdown()
    assert_same(host(found[1]), found[0])


def test_small_entries_travel_together(monkeypatch):
    env = make_env("strict")
    root = make_policy()(env.reset())
    copies = []
    copy = stand_in._copy

    def counted(to, *rest, **how):
        copies.append(to.device.type)
        return copy(to, *rest, **how)

    monkeypatch.setattr(stand_in, "_copy", counted)
    data, _ = env.step_and_maybe_reset(root)
    assert copies == ["cpu", "strict"]  # the action down, all else up
    # Their versions are their own: writing to one is nothing to what gradients keep of another.
    data["next", "done"].fill_(False)
    assert data["next", "observation"]._version == 0
