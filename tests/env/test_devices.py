"""Which device specs and tensordicts say that they are on. For CUDA see test_cuda.py."""

import pytest
import torch
from cases import cases
from comparing import assert_same
from small_envs import N, cartpole, fall_right
from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs


@pytest.mark.parametrize("device", cases([None, "cpu"]))
def test_device_of_what_is_returned(device):
    env = cartpole(device=device)
    expected = None if device is None else torch.device(device)
    assert env.device == expected
    root = env.reset()
    td, next_root = env.step_and_maybe_reset(env.rand_action(root))
    for one in (root, td, td["next"], next_root, env.rollout(3)):
        assert one.device == expected
        assert all(value.device.type == "cpu" for value in one.values(True, True))


def test_moving_to_a_device_moves_specs_and_outputs():
    env = cartpole()
    env.reset()
    assert env.to("cpu") is env
    assert env.device == torch.device("cpu")
    assert env.observation_spec.device == torch.device("cpu")
    assert env.rollout(3).device == torch.device("cpu")
    check_env_specs(env)


def test_default_device_of_torch_is_ignored():
    with torch.device("meta"):
        env = cartpole(device="cpu")
        assert env.reset()["observation"].device.type == "cpu"


def test_input_on_no_device_is_moved():
    env = cartpole(seed=0, device="cpu")
    expected = cartpole(seed=0)
    root = TensorDict(dict(fall_right(env.reset()).items()), [N])
    assert root.device is None
    td, next_root = env.step_and_maybe_reset(root)
    assert td.device == next_root.device == torch.device("cpu")
    assert "next" not in root
    assert_same(td, expected.step(fall_right(expected.reset())))


@pytest.mark.parametrize(
    ("device", "name"), cases(default=[("cuda", "cuda"), ("cuda:1", "cuda:1")], also=[(0, "cuda:0")])
)
def test_cuda_where_there_is_none(device, name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused = pytest.raises(
        ValueError, match=f"expected one that torch can use, got '{name}', but CUDA is not available"
    )
    with refused:
        cartpole(device=device)
    env = cartpole()
    with refused:
        env.to(device)
    assert env.rollout(3).device is None


def test_a_cuda_device_too_many(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="device: expected one of 1 CUDA devices, got 'cuda:1'"):
        cartpole(device="cuda:1")
