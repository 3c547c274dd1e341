"""Pools under TorchRL's transforms."""

import pytest
import torch
from torchrl.envs import (
    ActionDiscretizer,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import PoolEnv


def test_random_actions_where_a_transform_changes_them():
    """TransformedEnv refuses them there where an env's class has a rand_action of its own."""
    env = TransformedEnv(PoolEnv("Pendulum-v1", 3), ActionDiscretizer(5))
    actions = env.rand_action(env.reset())["action"]
    assert actions.dtype is torch.int64
    assert env.full_action_spec["action"].is_in(actions)
    assert env.rand_step(env.reset())["next", "reward"].shape == (3, 1)
    assert env.rollout(5).shape == (3, 5)


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
