"""TorchRL's cases of what changes numbers: rewards, observations, their bounds and types."""

import pytest
import torch
from torchrl.envs import (
    BinarizeReward,
    ClipTransform,
    DoubleToFloat,
    DTypeCastTransform,
    ObservationNorm,
    RewardClipping,
    RewardScaling,
    SignTransform,
    ToTensorImage,
)
from torchrl.envs.utils import step_mdp
from ways import as_it_is, transformed


def same_draws(env, steps=6):
    torch.manual_seed(0)
    return env.rollout(steps)


@pytest.fixture
def plain():
    """The same draws without a transform."""
    return same_draws(transformed(as_it_is, "Draws-v0", RewardClipping(-99, 99), num_envs=3).base_env)


def test_binary_rewards(way, plain):
    env = transformed(way, "Draws-v0", BinarizeReward(), num_envs=3)
    rewards = same_draws(env)["next", "reward"]
    assert env.reward_spec.is_in(rewards[:, 0])
    assert torch.equal(rewards, (plain["next", "reward"] > 0).to(rewards.dtype))
    assert 0 < rewards.sum() < rewards.numel()


def test_binary_rewards_of_agents(way):
    env = transformed(way, "Agents-v0", BinarizeReward(in_keys=[("agents", "reward")]), num_envs=3)
    assert ("agents", "reward") in env.full_reward_spec.keys(True)
    assert set(env.rollout(4)["next", "agents", "reward"].flatten().tolist()) <= {0, 1}


def test_clipped_rewards(way, plain):
    env = transformed(way, "Draws-v0", RewardClipping(-0.5, 0.25), num_envs=3)
    rewards = same_draws(env)["next", "reward"]
    assert torch.equal(rewards, plain["next", "reward"].clamp(-0.5, 0.25))
    assert rewards.min() == -0.5
    assert rewards.max() == 0.25
    assert env.reward_spec.space.low.unique() == -0.5


@pytest.mark.parametrize("standard_normal", [True, False])
def test_scaled_rewards(way, plain, standard_normal):
    scaling = RewardScaling(0.5, 1.5, standard_normal=standard_normal)
    rewards = same_draws(transformed(way, "Draws-v0", scaling, num_envs=3))["next", "reward"]
    expected = plain["next", "reward"]
    expected = (expected - 0.5) / 1.5 if standard_normal else expected * 1.5 + 0.5
    assert torch.equal(rewards, expected)


def test_scaling_of_a_reward_follows_its_parameters(way, plain):
    env = transformed(way, "Draws-v0", RewardScaling(0.0, 1.0), num_envs=3)
    env.transform.loc += 2
    env.transform.scale *= 3
    assert torch.equal(same_draws(env)["next", "reward"], plain["next", "reward"] * 3 + 2)


def test_signs(way, plain):
    env = transformed(way, "Draws-v0", SignTransform(in_keys=["observation", "reward"]), num_envs=3)
    data = same_draws(env)
    for key in ("observation", ("next", "observation"), ("next", "reward")):
        assert torch.equal(data[key], plain[key].sign())
    assert (env.observation_spec["observation"].space.high == 1).all()


@pytest.mark.parametrize(
    ("low", "high"), [(-0.5, 0.25), (None, 0.25), (-0.5, None), (-1, 1), (-torch.ones(()), 1)]
)
def test_clipped_numbers(way, plain, low, high):
    clip = ClipTransform(in_keys=["observation", "precise", "reward"], low=low, high=high)
    data = same_draws(transformed(way, "Draws-v0", clip, num_envs=3))
    for key in ("observation", "precise", ("next", "observation"), ("next", "reward")):
        assert torch.equal(data[key], plain[key].clamp(low, high)), key


@pytest.mark.parametrize(
    ("error", "low", "high", "words"),
    [
        (TypeError, None, None, "Either one or both of `high` and `low`"),
        (TypeError, torch.randn(2), None, "low and high must be scalars or None"),
        (ValueError, 1.0, -1.0, "`low` must be strictly lower than `high`"),
    ],
)
def test_bounds_that_cannot_be(error, low, high, words):
    with pytest.raises(error, match=words):
        ClipTransform(in_keys=["observation"], low=low, high=high)


# ---- ObservationNorm


@pytest.mark.parametrize("standard_normal", [True, False])
@pytest.mark.parametrize("out_keys", [None, ["stuff"], [("a", "stuff")]])
def test_normed_observations(way, plain, out_keys, standard_normal):
    loc, scale = torch.linspace(-1, 1, 7), torch.linspace(1, 3, 7)
    norm = ObservationNorm(loc, scale, ["observation"], out_keys, standard_normal=standard_normal)
    data = same_draws(transformed(way, "Draws-v0", norm, num_envs=3))
    for where in ((), ("next",)):
        seen = plain[(*where, "observation")]
        expected = (seen - loc) / scale if standard_normal else seen * scale + loc
        out = out_keys[0] if out_keys else "observation"
        assert torch.equal(data[(*where, *((out,) if isinstance(out, str) else out))], expected)
        if out_keys:
            assert torch.equal(data[(*where, "observation")], seen)


@pytest.mark.parametrize("standard_normal", [True, False])
@pytest.mark.parametrize(
    ("loc", "scale"), [(0.0, 1.0), (1.0, 2.0), (torch.ones(7), 1.0), (1.0, torch.ones(7))]
)
def test_bounds_are_normed_too(way, loc, scale, standard_normal):
    env = transformed(
        way, "Draws-v0", ObservationNorm(loc, scale, ["bounded"], standard_normal=standard_normal)
    )
    space = env.observation_spec["bounded"].space
    low = (-1 - loc) / scale if standard_normal else -1 * scale + loc
    high = (1 - loc) / scale if standard_normal else 1 * scale + loc
    assert (space.low == low).all()
    assert (space.high == high).all()
    assert env.observation_spec["bounded"].is_in(env.reset()["bounded"])


def test_a_clone_of_a_norm_shares_its_statistics(way):
    env = transformed(way, "Draws-v0", ObservationNorm(0.0, 1.0, ["observation"], ["stuff"]), num_envs=3)
    clone = env.transform.clone()
    env.transform.loc += 1
    env.transform.scale += 1
    assert clone.loc == env.transform.loc == 1
    assert clone.scale == env.transform.scale == 2
    root = env.reset()
    assert torch.equal(root["stuff"], root["observation"] * 2 + 1)


@pytest.mark.parametrize("keys", [["observation"], ["observation", "bounded"]])
@pytest.mark.parametrize("standard_normal", [True, False])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_statistics_from_a_rollout(way, keys, standard_normal, num_envs):
    env = transformed(
        way,
        "Draws-v0",
        ObservationNorm(in_keys=keys, standard_normal=standard_normal),
        num_envs=num_envs,
        end=40,
    )
    env.transform.init_stats(num_iter=31, key="observation", cat_dim=1, reduce_dim=(0, 1))
    norm = env.transform
    assert norm.loc.shape == norm.scale.shape == (7,)
    assert norm.loc.dtype is torch.float32
    data = env.rollout(31)["observation"]
    assert data.mean().abs() < 0.3
    assert 0.7 < data.std() < 1.3
    with pytest.raises(RuntimeError, match="Loc/Scale are already initialized"):
        norm.init_stats(num_iter=11)


@pytest.mark.parametrize("standard_normal", [True, False])
def test_statistics_of_pictures(way, standard_normal):
    norm = ObservationNorm(in_keys=["pixels"], standard_normal=standard_normal)
    env = transformed(way, "Draws-v0", ToTensorImage(), norm, num_envs=2)
    norm.init_stats(num_iter=11, cat_dim=1, reduce_dim=(0, 1, 3, 4), keep_dims=(3, 4))
    assert norm.loc.shape == norm.scale.shape == (3, 1, 1)
    assert env.rollout(11)["pixels"].mean().abs() < 0.2


def test_without_statistics_there_is_no_norm(way):
    with pytest.raises(RuntimeError, match="Loc/Scale have not been initialized"):
        transformed(way, "Draws-v0", ObservationNorm(in_keys=["observation"])).reset()


# ---- types


def test_all_doubles_become_floats(way, plain):
    env = transformed(way, "Draws-v0", DoubleToFloat(), num_envs=3)
    assert {spec.dtype for spec in env.observation_spec.values(True, True)} == {torch.float32, torch.uint8}
    assert env.transform.in_keys == env.transform.out_keys == ["precise"]
    assert env.transform.in_keys_inv == env.transform.out_keys_inv == []
    data = same_draws(env)
    assert torch.equal(data["next", "precise"], plain["next", "precise"].float())


def test_named_doubles_become_floats(way):
    env = transformed(way, "Draws-v0", DoubleToFloat(in_keys=["precise"], out_keys=["short"]), num_envs=3)
    data = same_draws(env)
    assert data["precise"].dtype is torch.float64
    assert torch.equal(data["short"], data["precise"].float())


def test_what_is_no_double_is_refused(way):
    with pytest.raises(TypeError, match="observation"):
        transformed(way, "Draws-v0", DoubleToFloat(in_keys=["observation"])).reset()


@pytest.mark.parametrize("num_envs", [1, 3])
def test_actions_are_cast_on_their_way_in(way, num_envs):
    cast = DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"], in_keys_inv=["action"])
    env = transformed(way, "Draws-v0", cast, num_envs=num_envs)
    assert env.full_action_spec["action"].dtype is torch.float64
    root = env.rand_action(env.reset())
    assert root["action"].dtype is torch.float64
    after = env.step(root)["next"]
    assert after["reward"].dtype is torch.float64
    assert torch.equal(after["received"], root["action"].float())
    assert step_mdp(env.step(root))["received"].dtype is torch.float32
