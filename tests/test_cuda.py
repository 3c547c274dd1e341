"""The pool with its outputs on a GPU."""

import pytest
import torch

from torchrl_pool import PoolEnv, list_tasks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

KEYS = ("step_count", "episode_reward", "is_init")


def trajectory(env, actions):
    root, out = env.reset(), []
    for action in actions:
        data, root = env.step_and_maybe_reset(root.set("action", action.to(env.device)))
        out.append((data, root))
    return out


@pytest.mark.parametrize("task", list_tasks("classic"))
def test_same_numbers_on_the_gpu(task):
    torch.manual_seed(0)
    cpu = PoolEnv(task, 16, seed=0, device="cpu", info_keys=KEYS)
    actions = [cpu.rand_action()["action"] for _ in range(300)]
    for device in ("cuda", torch.device("cuda", 0)):
        gpu = PoolEnv(task, 16, seed=0, device=device, info_keys=KEYS)
        for ours, theirs in zip(trajectory(gpu, actions), trajectory(cpu, actions), strict=True):
            for got, expected in zip(ours, theirs, strict=True):
                assert got.device.type == "cuda"
                assert all(value.device.type == "cuda" for value in got.values(True, True))
                assert (got.cpu() == expected).all()
        cpu.set_seed(0)


def test_copies_from_pinned_memory_are_never_overtaken():
    """With the GPU kept busy, copies lag behind the steps that follow; each must still carry its own data."""
    gpu = PoolEnv("CartPole-v1", 1024, seed=0, device="cuda")
    cpu = PoolEnv("CartPole-v1", 1024, seed=0)
    actions = [cpu.rand_action()["action"] for _ in range(100)]
    on_gpu = [action.cuda() for action in actions]
    root, held = gpu.reset(), []
    busy = torch.ones(4096, 4096, device="cuda")
    for action in on_gpu:
        busy = busy @ busy * 1e-4
        data, root = gpu.step_and_maybe_reset(root.set("action", action))
        held.append(data["next", "observation"])
    expected = [data["next", "observation"] for data, _ in trajectory(cpu, actions)]
    assert all(got.cpu().equal(want) for got, want in zip(held, expected, strict=True))


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
