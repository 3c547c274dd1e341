"""The pool with its outputs on a GPU."""

import random
from collections import Counter

import pytest
import torch
from cases import cases
from tensordict.nn import TensorDictModule

from torchrl_pool import PoolCollector, PoolEnv, list_tasks
from torchrl_pool._env import stepper, transfers

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

KEYS = ("step_count", "episode_reward", "is_init")


def trajectory(env, actions):
    root, out = env.reset(), []
    for action in actions:
        data, root = env.step_and_maybe_reset(root.set("action", action.to(env.device)))
        out.append((data, root))
    return out


@pytest.mark.parametrize(
    "task",
    cases(
        default=["CartPole-v0", "CartPole-v1", "MountainCarContinuous-v0"],
        also=[*list_tasks("classic"), "HalfCheetah-v5", "Ant-v5", "ALE/Pong-v5"],
    ),
)
def test_same_numbers_on_the_gpu(task):
    torch.manual_seed(0)
    cpu = PoolEnv(task, 16, seed=0, device="cpu", info_keys=KEYS)
    actions = [cpu.rand_action()["action"] for _ in range(100)]
    for device in ("cuda", torch.device("cuda", 0)):
        gpu = PoolEnv(task, 16, seed=0, device=device, info_keys=KEYS)
        for ours, theirs in zip(trajectory(gpu, actions), trajectory(cpu, actions), strict=True):
            for got, expected in zip(ours, theirs, strict=True):
                assert got.device.type == "cuda"
                assert all(value.device.type == "cuda" for value in got.values(True, True))
                assert (got.cpu() == expected).all()
        cpu.set_seed(0)


def test_masks_on_the_gpu():
    env = PoolEnv("CartPole-v1", 4, seed=0, device="cuda")
    root = env.rand_action(env.reset())
    mask = torch.tensor([True, False, True, False], device="cuda")
    data = env.step(root.clone().set("_step", mask))
    assert data["next", "observation"][1].equal(root["observation"][1])
    assert not data["next", "observation"][0].equal(root["observation"][0])
    fresh = env.reset(env.step_mdp(data).set("_reset", mask))
    assert fresh["observation"][1].equal(root["observation"][1])


def test_moved_after_construction():
    env = PoolEnv("CartPole-v1", 4, seed=0).to("cuda")
    assert env.rollout(20, break_when_any_done=False).device.type == "cuda"
    back = env.to("cpu")
    assert back.rollout(20, break_when_any_done=False).device.type == "cpu"


def test_pinned_cpu_outputs():
    env = PoolEnv("CartPole-v1", 4, pin_memory=True)
    data = env.rollout(3)
    assert env.reset()["observation"].is_pinned()
    assert data.device is None


LONG = 10_000


def choose(observation, step_count):
    rows = observation.flatten(1)
    return (rows[:, 2] > 0).long() ^ (step_count[:, 0] % 2), rows.sum(-1, True)


def batches(env_device, policy_device, storing_device, busy=None, task="CartPole-v1", steps=LONG, **options):
    env = PoolEnv(
        task,
        32,
        seed=0,
        device=env_device,
        categorical_action_encoding=True,
        max_episode_steps=50,
        info_keys=["step_count"],
    )

    def policy(*inputs):
        if busy is not None:
            busy()
        return choose(*inputs)

    collector = PoolCollector(
        env,
        TensorDictModule(policy, ["observation", "step_count"], ["action", "score"]),
        frames_per_batch=32 * 100,
        total_frames=32 * steps,
        policy_device=policy_device,
        storing_device=storing_device,
        trust_policy=True,
        **options,
    )
    yield from collector
    collector.shutdown()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("storing_device", ["cpu", "cuda"])
@pytest.mark.parametrize("policy_device", ["cpu", "cuda"])
@pytest.mark.parametrize("env_device", cases(["cpu", "cuda"]))
def test_bytes_of_long_collections(env_device, policy_device, storing_device, groups, monkeypatch):
    """10^4 steps with policies and copies that are delayed at random, so that a missing wait shows."""
    generator = random.Random(0)

    def busy():
        if generator.random() < 0.02:
            torch.cuda._sleep(generator.randrange(1_000_000))  # about half a millisecond
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda._sleep(generator.randrange(1_000_000))

    def send_late(uploads, *what):
        with torch.cuda.stream(uploads._stream):
            busy()
        send(uploads, *what)

    send = transfers.Uploads.send
    monkeypatch.setattr(transfers.Uploads, "send", send_late)
    monkeypatch.setattr(stepper, "up", lambda *values: busy() or transfers.up(*values))
    ours = batches(env_device, policy_device, storing_device, busy, double_buffered=groups)
    for got, expected in zip(ours, batches("cpu", "cpu", "cpu"), strict=True):
        assert all(value.device.type == storing_device for value in got.values(True, True))
        for key in expected.keys(True, True):
            if key == "score":  # its sum may be taken in another order
                assert torch.allclose(got[key].cpu(), expected[key])
            else:
                assert torch.equal(got[key].cpu(), expected[key]), key


@pytest.mark.parametrize("env_device", cases(["cpu", "cuda"]))
def test_pictures_in_two_groups(env_device):
    """Their tensors are too large to share a copy with others."""
    ours = batches(env_device, "cuda", "cuda", task="ALE/Pong-v5", steps=300, double_buffered=True)
    theirs = batches("cpu", "cpu", "cpu", task="ALE/Pong-v5", steps=300)
    for got, expected in zip(ours, theirs, strict=True):
        assert (got.cpu() == expected).all()


def test_nothing_but_the_action_makes_the_host_wait():
    env = PoolEnv(
        "CartPole-v1", 64, device="cuda", categorical_action_encoding=True, info_keys=["step_count"]
    )
    root = env.reset()
    for _ in range(10):
        root["action"], _ = choose(root["observation"], root["step_count"])
        _, root = env.step_and_maybe_reset(root)
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(100):
            root["action"], _ = choose(root["observation"], root["step_count"])
            _, root = env.step_and_maybe_reset(root)
    calls = Counter(event.name for event in profile.events())
    assert calls["cudaEventSynchronize"] == 100
    # The profiler itself ends with one.
    assert calls["cudaStreamSynchronize"] == 0
    assert calls["cudaDeviceSynchronize"] <= 1


def test_pinned_batches():
    collector = PoolCollector(
        PoolEnv("CartPole-v1", 8),
        frames_per_batch=64,
        total_frames=64,
        storing_device="cpu",
        pin_memory=True,
    )
    for batch in collector:
        assert all(value.is_pinned() for value in batch.values(True, True))
    collector.shutdown()
