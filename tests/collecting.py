"""Batches of PoolCollector and Collector to compare, and policies for them."""

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.modules import NormalParamExtractor, OneHotCategorical, ProbabilisticActor, TanhNormal

from torchrl_pool import PoolEnv

N, T = 5, 24
FRAMES = N * T


class Floats(nn.Module):
    def forward(self, observation):
        return observation.float()


def categorical_actor(env):
    linear = nn.Linear(env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1])
    net = TensorDictModule(
        nn.Sequential(Floats(), linear),
        in_keys=["observation"],
        out_keys=["logits"],
    )
    return ProbabilisticActor(
        net,
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )


def normal_actor(env):
    size, actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    layers = nn.Sequential(Floats(), nn.Linear(size, 2 * actions), NormalParamExtractor())
    net = TensorDictModule(layers, in_keys=["observation"], out_keys=["loc", "scale"])
    return ProbabilisticActor(
        net, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True
    )


def random_actions(env):
    return None


class PolicyOfNewTensordicts(nn.Module):
    """Returns a tensordict of its own, writes under "next" too, and says nothing of its keys."""

    def forward(self, tensordict: TensorDictBase):
        tilt = tensordict["observation"][..., 2]
        out = tensordict.empty()
        out["action"] = torch.stack([tilt < 0, tilt >= 0], -1).long()
        out["hidden", "tilt"] = tilt
        out["next", "memory"] = tilt.unsqueeze(-1) * 2
        return out


def tilt_policy(env):
    return PolicyOfNewTensordicts()


def collect(cls, task, make_policy, *, num_batches=3, change=None, env_options=None, wrap=None, **options):
    """All batches, with everything seeded: the policy's weights, its draws and the envs."""
    torch.manual_seed(0)
    env = PoolEnv(task, N, max_episode_steps=11, **(env_options or {}))
    policy = make_policy(env)
    env = env if wrap is None else wrap(env)
    env.set_seed(4)
    torch.manual_seed(1)
    if cls is Collector:  # which says else that this will change
        options = {"auto_register_policy_transforms": False, **options}
    collector = cls(env, policy, frames_per_batch=FRAMES, total_frames=FRAMES * num_batches, **options)
    batches = []
    for batch in collector:
        batches.append(batch)
        if change is not None:
            change(collector)
    collector.shutdown()
    return batches


def assert_equal_batches(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.batch_size == other.batch_size
        assert one.names == other.names
        assert one.device == other.device
        assert sorted(map(str, one.keys(True))) == sorted(map(str, other.keys(True)))
        for key, value in other.items(True, True):
            assert one[key].dtype is value.dtype, key
            assert torch.equal(one[key], value), key


# Tasks, and what makes a policy for each.
TASKS = [
    ("CartPole-v1", categorical_actor),
    ("CartPole-v1", tilt_policy),
    ("HalfCheetah-v5", normal_actor),
    ("FrozenLake-v1", categorical_actor),
    ("Pendulum-v1", random_actions),
    ("ALE/Pong-v5", random_actions),
]
