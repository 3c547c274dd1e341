"""Entries that a policy writes for the next step, and which TensorDictPrimer begins episodes with."""

from __future__ import annotations

import pytest
import torch
from cases import cases
from pipelines import assert_same
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t

from torchrl_pool import PoolCollector, PoolEnv, fuse

N = 4


def remembering(td):
    """Adds up what it has seen."""
    memory = td["memory"] + td["observation"][..., 2:3]
    td["next", "memory"] = memory
    td["action"] = torch.cat([memory <= 0, memory > 0], -1).long()
    return td


def over_pool(**options):
    primer = t.TensorDictPrimer(memory=Unbounded((1,)), expand_specs=True, **options)
    transforms = Compose(primer, t.StepCounter(9), t.RewardSum())
    return TransformedEnv(PoolEnv("CartPole-v1", N, seed=0), transforms)


def both(**options):
    fused = fuse(over_pool(**options))
    assert not fused.fusion().rest, fused.fusion().why_not
    return fused, over_pool(**options)


@pytest.mark.parametrize("break_when_any_done", cases([True, False]))
def test_rollouts_hand_on_what_the_policy_wrote(break_when_any_done):
    data = [
        env.rollout(40, remembering, break_when_any_done=break_when_any_done)
        for env in both(default_value=0.25)
    ]
    assert data[0]["next", "memory"].unique().numel() > N
    assert_same(*data, in_order=False)


@pytest.mark.parametrize("kind", cases([Collector, PoolCollector]))
def test_collectors_hand_on_what_the_policy_wrote(kind):
    batches = []
    for make, env in zip((kind, Collector), both(default_value={"memory": -0.5}), strict=True):
        collector = make(env, remembering, frames_per_batch=N * 10, total_frames=N * 40)
        batches.append([batch.clone() for batch in collector])
        collector.shutdown()
    for ours, theirs in zip(*batches, strict=True):
        assert_same(ours, theirs, in_order=False)


def test_double_buffered_collectors_hand_it_on():
    batches = []
    for groups in (1, 2):
        env = both()[0]
        collector = PoolCollector(
            env, remembering, frames_per_batch=N * 10, total_frames=N * 40,
            double_buffered=groups, trust_policy=True,
        )  # fmt: skip
        batches.append([batch.clone() for batch in collector])
    for one, two in zip(*batches, strict=True):
        assert_same(one.exclude("collector"), two.exclude("collector"), in_order=False)


def test_gradients_flow_through_it():
    """From step to step, as in TorchRL, whose code then runs."""
    gradients = [_gradient(env) for env in both()]
    assert gradients[0] != 0
    assert torch.equal(*gradients)


def _gradient(env):
    weight = torch.ones((), requires_grad=True)

    def policy(td):
        td["next", "memory"] = td["memory"] * weight + td["observation"][..., 2:3].detach()
        return td.set("action", torch.tensor([0, 1]).expand(N, 2).clone())

    data = env.rollout(5, policy, break_when_any_done=False)
    return torch.autograd.grad(data["next", "memory"][:, -1].sum(), weight)[0]


@pytest.mark.parametrize(
    "options", cases([{"random": True}, {"default_value": lambda: torch.ones(N, 1)}]), ids=["drawn", "made"]
)
def test_what_is_drawn_or_made_by_a_function_is_torchrls(options):
    env = fuse(over_pool(**options))
    assert env.fusion().num_native == 0
    assert env.rollout(20, remembering, break_when_any_done=False)["memory"].shape == (N, 20, 1)


@pytest.mark.parametrize("groups", cases(default=[False, 2], also=[4]))
def test_entries_that_nobody_has_announced_begin_anew_with_an_episode(groups):
    """Also where all envs of a group begin one, as a group of one env always does."""

    def counting(td):
        td["seen"] = td.get("seen", torch.zeros(*td.shape, 1)) + 1
        td["action"] = torch.zeros(td.shape, dtype=torch.long)
        return td

    env = PoolEnv("CartPole-v1", N, seed=0, categorical_action_encoding=True)
    options = {"frames_per_batch": N * 40, "total_frames": N * 40, "double_buffered": groups}
    (batch,) = PoolCollector(env, counting, **options)
    done = batch["next", "done"]
    assert done.sum() > N
    assert not done.all(0).any(), "TorchRL keeps them where all envs begin anew at once"
    begins = torch.cat([torch.ones_like(done[:, :1]), done[:, :-1]], 1)
    assert ((batch["seen"] == 1) == begins).all()
