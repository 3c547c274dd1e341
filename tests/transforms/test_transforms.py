"""Pools under TorchRL's transforms."""

import pytest
import torch
from small_envs import TASKS, cartpole, fall_right
from torchrl.envs import (
    ActionDiscretizer,
    DoubleToFloat,
    GymEnv,
    ObservationNorm,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import PoolEnv


def transformed(base):
    env = TransformedEnv(base, StepCounter(max_steps=20))
    env.append_transform(RewardSum())
    env.append_transform(ObservationNorm(loc=0.5, scale=2.0, in_keys=["observation"], out_keys=["normed"]))
    return env.append_transform(DoubleToFloat())


def test_random_actions_where_a_transform_changes_them():
    """TransformedEnv refuses them there where an env's class has a rand_action of its own."""
    env = TransformedEnv(PoolEnv("Pendulum-v1", 3), ActionDiscretizer(5))
    actions = env.rand_action(env.reset())["action"]
    assert actions.dtype is torch.int64
    assert env.full_action_spec["action"].is_in(actions)
    assert env.rand_step(env.reset())["next", "reward"].shape == (3, 1)
    assert env.rollout(5).shape == (3, 5)


@pytest.mark.parametrize("task", TASKS)
def test_transformed_env_equals_transformed_serial_env(task):
    ours, reference = transformed(PoolEnv(task, 3)), transformed(SerialEnv(3, lambda: GymEnv(task)))
    assert ours.set_seed(1) == reference.set_seed(1)
    torch.manual_seed(1)
    a = ours.rollout(70, break_when_any_done=False)
    torch.manual_seed(1)
    b = reference.rollout(70, break_when_any_done=False)
    assert a["next", "done"].sum() >= 9
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in a.keys(True, True):
        torch.testing.assert_close(a[key], b[key])  # parity/ compares to the last bit


def test_terminal_observations_under_transforms():
    plain, env = cartpole(seed=0), transformed(cartpole(seed=0))
    a = plain.rollout(15, fall_right, break_when_any_done=False)
    b = env.rollout(15, fall_right, break_when_any_done=False)
    assert a["next", "done"].any()
    assert torch.equal(a["next", "observation"], b["next", "observation"])


@pytest.mark.filterwarnings("ignore:Support of VecNormV2 for containers with non-empty batch-size")
def test_partial_resets_do_not_distort_running_statistics():
    """A mean lies between the least and the greatest of what it is the mean of."""
    norm = VecNormV2(in_keys=["observation"], out_keys=["normed"], reduce_batch_dims=True)
    env = TransformedEnv(PoolEnv("CartPole-v1", 50, seed=0, low=0.2, high=0.205), norm)
    data = env.rollout(100, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    assert (done.any(0) & ~done.all(0)).any()
    positions = torch.stack([data["observation"], data["next", "observation"]])[..., 0]
    assert positions.min() > 0.19
    assert positions.min() < norm.loc["observation"].flatten()[0] < positions.max()
