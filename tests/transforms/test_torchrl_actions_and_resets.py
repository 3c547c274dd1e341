"""TorchRL's cases of what changes actions, repeats steps, or acts when an episode begins."""

import pytest
import torch
from torchrl.envs import (
    ActionScaling,
    ClipTransform,
    FrameSkipTransform,
    NoopResetEnv,
    SignTransform,
    SqueezeTransform,
    UnsqueezeTransform,
)
from ways import as_it_is, transformed

LOW, HIGH = torch.tensor([-2.0, 0.0, -5.0]), torch.tensor([4.0, 2.0, 5.0])  # of Draws-v0


def received(env, action):
    """What the env says that it was told."""
    root = env.reset()
    root["action"] = action.expand(env.batch_size[0], 3).contiguous()
    return env.step(root)["next", "received"][0]


# ---- ActionScaling


@pytest.mark.parametrize("standard_normal", [True, False])
def test_scaled_actions_reach_the_bounds(way, standard_normal):
    env = transformed(way, "Draws-v0", ActionScaling(standard_normal=standard_normal), num_envs=2)
    space = env.full_action_spec["action"].space
    least = -1.0 if standard_normal else 0.0
    assert (space.low == least).all()
    assert (space.high == 1).all()
    assert torch.allclose(received(env, torch.full((3,), least)), LOW)
    assert torch.allclose(received(env, torch.ones(3)), HIGH)
    assert torch.allclose(received(env, torch.full((3,), (least + 1) / 2)), (LOW + HIGH) / 2)


def test_action_scales_come_from_the_bounds(way):
    env = transformed(way, "Draws-v0", ActionScaling(), num_envs=2)
    assert env.full_action_spec["action"].shape == (2, 3)
    assert torch.allclose(env.transform.loc, torch.tensor([1.0, 1.0, 0.0]))
    assert torch.allclose(env.transform.scale, torch.tensor([3.0, 1.0, 5.0]))


def test_given_action_scales(way):
    env = transformed(way, "Draws-v0", ActionScaling(loc=1.0, scale=0.5), num_envs=2)
    assert torch.allclose(received(env, torch.tensor([-1.0, 0.0, 1.0])), torch.tensor([0.5, 1.0, 1.5]))


def test_random_actions_are_scaled_ones(way):
    data = transformed(way, "Draws-v0", ActionScaling(), num_envs=4, seed=0).rollout(9)
    assert data["action"].abs().max() <= 1
    expected = data["action"] * (HIGH - LOW) / 2 + (HIGH + LOW) / 2
    torch.testing.assert_close(data["next", "received"], expected)


def test_scaling_that_knows_no_action_changes_none(way):
    env = transformed(
        way, "Draws-v0", ActionScaling(in_keys=["observation"], in_keys_inv=[], loc=0.0, scale=2.0)
    )
    action = torch.tensor([3.0, 1.0, -4.0])
    assert torch.equal(received(env, action), action)


# ---- other inverses


def test_clipped_actions(way):
    clip = ClipTransform(in_keys=[], in_keys_inv=["action"], low=0.25, high=1.5)
    env = transformed(way, "Draws-v0", clip, num_envs=2)
    assert torch.equal(received(env, torch.tensor([-1.0, 1.0, 4.0])), torch.tensor([0.25, 1.0, 1.5]))


def test_signs_of_actions(way):
    env = transformed(way, "Draws-v0", SignTransform(in_keys=[], in_keys_inv=["action"]), num_envs=2)
    assert torch.equal(received(env, torch.tensor([-1.5, 0.0, 4.0])), torch.tensor([-1.0, 0.0, 1.0]))


def test_actions_squeezed_and_unsqueezed_are_what_they_were(way):
    """The order of inverses is that of the way in: the last transform first."""
    circle = [
        UnsqueezeTransform(-1, in_keys_inv=["action"], out_keys_inv=["action_t"]),
        SqueezeTransform(-1, in_keys_inv=["action_t"], out_keys_inv=["action"]),
    ]
    env = transformed(way, "HalfCheetah-v5", *circle, num_envs=2)
    assert env.full_action_spec["action"].shape == (2, 6)
    torch.manual_seed(0)
    data = env.rollout(3)
    torch.manual_seed(0)
    plain = transformed(as_it_is, "HalfCheetah-v5", SignTransform([]), num_envs=2).base_env.rollout(3)
    assert torch.equal(data["next", "observation"], plain["next", "observation"])


# ---- FrameSkipTransform


@pytest.mark.parametrize("skip", [1, 3, 4])
def test_skipped_frames_are_steps_whose_rewards_are_summed(way, skip):
    env = transformed(way, "Pendulum-v1", FrameSkipTransform(skip), num_envs=2)
    root = env.rand_action(env.reset())
    plain = transformed(as_it_is, "Pendulum-v1", FrameSkipTransform(1), num_envs=2).base_env
    twin = plain.reset()
    assert torch.equal(twin["observation"], root["observation"])
    sums = 0
    for _ in range(skip):
        twin["action"] = root["action"]
        twin = plain.step(twin)["next"]
        sums = sums + twin["reward"]
    after = env.step(root)["next"]
    assert torch.equal(after["observation"], twin["observation"])
    torch.testing.assert_close(after["reward"], sums)


def test_skipped_frames_of_agents(way):
    env = transformed(way, "Agents-v0", FrameSkipTransform(2), num_envs=2)
    data = env.rollout(2)
    assert data["next", "agents", "observation"][0, :, 0, 0].tolist() == [2, 4]


# ---- NoopResetEnv


@pytest.mark.parametrize("random", [True, False])
def test_an_episode_begins_after_some_steps(way, random):
    env = transformed(way, "Pendulum-v1", NoopResetEnv(9, random=random))
    plain = transformed(as_it_is, "Pendulum-v1", FrameSkipTransform(1)).base_env
    first = plain.reset()["observation"]
    root = env.reset()
    assert not torch.equal(root["observation"], first)
    assert not root["done"].any()
    assert env.rollout(3).shape == (1, 3)


@pytest.mark.parametrize("random", [True, False])
def test_many_envs_have_no_common_first_steps(way, random):
    env = transformed(way, "Pendulum-v1", NoopResetEnv(9, random=random), num_envs=3)
    with pytest.raises(ValueError, match="The parent environment batch-size is non-null"):
        env.reset()


def test_more_first_steps_than_an_episode_has(way):
    env = transformed(way, "Pendulum-v1", NoopResetEnv(50, random=False), max_episode_steps=5)
    with pytest.raises(RuntimeError, match="Parent env was repeatedly done"):
        env.reset()
