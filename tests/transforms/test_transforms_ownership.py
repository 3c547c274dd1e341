"""Transforms stay their users': what the executor keeps is theirs to read and to change."""

from __future__ import annotations

import pytest
import torch
from cases import cases
from pipelines import OBS, assert_same, torchrl_env
from playing import play
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import FusedEnv, MujocoPool, PoolCollector, PoolEnv, explain, fuse


def fused(*transforms: t.Transform) -> FusedEnv:
    return fuse(TransformedEnv(PoolEnv("CartPole-v1", 4, seed=0), Compose(*transforms)))


def test_a_fused_env_is_a_transformed_env_with_the_same_parts():
    pool, counter = PoolEnv("CartPole-v1", 4), t.StepCounter()
    env = fuse(TransformedEnv(pool, Compose(counter)))
    assert isinstance(env, TransformedEnv)
    assert env.base_env is pool
    assert env.transform[0] is counter
    assert fuse(env) is env


def test_a_pool_without_transforms_stays_as_it_is(capsys):
    for pool in (PoolEnv("CartPole-v1", 4), MujocoPool("ant.xml", 2)):
        assert fuse(pool) is pool
        print(explain(pool))
        assert capsys.readouterr().out == "transforms: none\n"


def test_a_fused_env_says_what_it_is():
    assert repr(fused(t.RewardSum())).startswith("FusedEnv(")


def test_counts_are_those_of_the_root():
    env = fused(t.RewardSum(), t.StepCounter())
    root = env.rand_action(env.reset())
    root["step_count"] += 5
    root["episode_reward"] += 0.5
    data, _ = env.step_and_maybe_reset(root)
    assert (data["next", "step_count"] == 6).all()
    assert (data["next", "episode_reward"] == 1.5).all()


CHANGES = {
    "strided": lambda x: x.set_(torch.arange(8, dtype=x.dtype)[::2].reshape(4, 1)),
    "expanded": lambda x: x.set_(torch.ones(1, dtype=x.dtype).expand(4, 1)),
    "another dtype": lambda x: setattr(x, "data", torch.full((4, 1), 5.0, dtype=torch.float64)),
    "data": lambda x: setattr(x, "data", torch.full((4, 1), 5, dtype=x.dtype)),
    "in place": lambda x: x.add_(3),
}


@pytest.mark.parametrize("change", cases(CHANGES.values()), ids=CHANGES)
def test_what_is_done_to_a_carried_tensor_counts(change):
    env = fused(t.StepCounter(), t.RewardSum())
    plain = TransformedEnv(PoolEnv("CartPole-v1", 4, seed=0), Compose(t.StepCounter(), t.RewardSum()))
    root, expected = env.reset(), plain.reset()
    for key in ("step_count", "episode_reward"):
        for one in (root, expected):
            change(one[key])
    action = env.rand_action(root)["action"]
    for data, same in zip(
        env.step_and_maybe_reset(root),
        plain.step_and_maybe_reset(expected.set("action", action)),
        strict=True,
    ):
        assert_same(data, same)


@pytest.mark.parametrize("empty", cases([lambda x: x.set_(), lambda x: x.resize_(1, 1)]))
def test_a_carried_tensor_that_does_not_fit_any_more_is_refused(empty):
    env = fused(t.StepCounter())
    root = env.rand_action(env.reset())
    empty(root["step_count"])
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        env.step_and_maybe_reset(root)
    play(env)


def test_carried_views_and_gradients_are_as_torchrl_has_them():
    env = fused(t.RewardSum())
    root = env.rand_action(env.reset())
    root["episode_reward"] = torch._neg_view(torch.full((4, 1), 2.0))
    assert env.step_and_maybe_reset(root)[0]["next", "episode_reward"].flatten().tolist() == [-1.0] * 4
    root = env.rand_action(env.reset())
    root["episode_reward"] = earned = torch.ones(4, 1, requires_grad=True)
    env.step_and_maybe_reset(root)[0]["next", "episode_reward"].sum().backward()
    assert earned.grad.tolist() == [[1.0]] * 4


def test_what_has_no_native_form_is_torchrls_and_all_behind_it():
    def finite():
        return [t.RewardSum(), t.FiniteTensorDictCheck(), t.StepCounter(9)]

    env = fused(*finite())
    assert env.fusion().num_native == 1
    assert "FiniteTensorDictCheck" in env.fusion().why_not
    torch.manual_seed(0)
    data = play(env, 40)
    torch.manual_seed(0)
    reference = TransformedEnv(PoolEnv("CartPole-v1", 4, seed=0), Compose(*finite()))
    assert_same(data, play(reference, 40), in_order=False)


def test_explain_says_what_runs_where(capsys):
    print(explain(fused(t.RewardSum(), t.FiniteTensorDictCheck(), t.StepCounter())))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["RewardSum", "the", "executor"]
    assert "no native form of FiniteTensorDictCheck is known" in lines[2]
    assert lines[3].endswith("one before it does")


def test_an_explanation_can_be_read_by_programs():
    env = PoolEnv("CartPole-v1", 4)
    explanation = explain(fuse(TransformedEnv(env, t.RewardSum())))
    assert explanation.transforms == (("RewardSum", "the executor", ""),)
    assert explanation.modules == ()
    collector = PoolCollector(TransformedEnv(env, t.InitTracker()), None, frames_per_batch=8)
    explanation = explain(collector)
    assert explanation.transforms == (("InitTracker", "the executor", ""),)
    assert [name for name, _, _ in explanation.modules] == ["RandomPolicy"]
    assert explanation.stepping == "the envs are stepped all together"


def test_what_was_normalised_before_is_left_to_torchrl():
    env = fuse(TransformedEnv(PoolEnv("CartPole-v1", 4), Compose(VecNorm(OBS), VecNorm(OBS))))
    assert env.fusion().num_native == 1


def test_the_pool_below_still_works_by_itself():
    env = fused(t.RewardSum(), VecNorm(OBS))
    play(env)
    data = env.base_env.rollout(5, break_when_any_done=False)
    assert data.get("episode_reward", None) is None
    assert torchrl_env(env.base_env, ("classic", "counters")).rollout(3)["next", "step_count"].shape == (
        4,
        3,
        1,
    )
