"""FrameSkipTransform, EndOfLifeTransform and NoopResetEnv over a pool."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from cases import cases
from pipelines import assert_same
from torchrl.collectors import Collector
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t

from torchrl_pool import PoolCollector, PoolEnv, explain, fuse

N = 4


def skipping(times, *further, task="CartPole-v1", num_envs=N, **options):
    pool = PoolEnv(task, num_envs, seed=0, num_threads=2, **options)
    env = fuse(TransformedEnv(pool, Compose(t.FrameSkipTransform(times), *further)))
    assert not env.fusion().rest, env.fusion().why_not
    return env


def by_hand(pool, actions, times):
    """What a loop over one env's steps gives: it ends with the episode."""
    root, steps = pool.reset(), []
    for action in actions:
        reward = torch.zeros(1, 1)
        for _ in range(times):
            following = pool.step(root.set("action", action))["next"]
            reward = reward + following["reward"]
            if following["done"]:
                break
        steps.append(following.set("reward", reward))
        root = following.exclude("reward")
        if root["done"]:
            root = pool.reset()
    return torch.stack(steps, 1)


@pytest.mark.parametrize("times", cases(default=[3, 7], also=[2]))
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("CartPole-v1", {"max_episode_steps": 5}),
        ("CartPole-v1", {}),
        ("HalfCheetah-v5", {"max_episode_steps": 8}),
    ],
)
def test_no_step_goes_past_the_end_of_an_episode(times, task, options):
    pool = PoolEnv(task, 1, seed=0, **options)
    torch.manual_seed(0)
    actions = [pool.full_action_spec["action"].rand() for _ in range(30)]
    expected = by_hand(pool, actions, times)
    remaining = iter(actions)
    data = skipping(times, task=task, num_envs=1, **options).rollout(
        30, lambda td: td.set("action", next(remaining)), break_when_any_done=False
    )
    assert data["next", "done"].sum() > 1
    assert_same(data["next"].exclude("action"), expected.exclude("action"), in_order=False)


def test_rewards_and_counts_are_of_steps_as_they_are_seen():
    env = skipping(4, t.RewardSum(), t.StepCounter(), max_episode_steps=6)
    data = env.rollout(4, break_when_any_done=False)
    whole = data[:, :2][data["next", "truncated"][:, 1].squeeze(-1)]
    assert whole["next", "reward"].squeeze(-1).tolist() == [[4.0, 2.0]] * len(whole)
    assert (whole["next", "episode_reward"][:, 1] == 6).all()
    assert (whole["next", "step_count"][:, 1] == 2).all()


def test_collectors_skip_alike():
    batches = []
    for kind in (Collector, PoolCollector):
        torch.manual_seed(0)
        collector = kind(skipping(3, t.RewardSum()), None, frames_per_batch=N * 20, total_frames=N * 20)
        batches += [batch.clone() for batch in collector]
    assert batches[0]["next", "reward"].unique().tolist() == [1, 2, 3]
    assert_same(*batches, in_order=False)


def test_another_number_counts_from_the_next_step_on():
    env = skipping(2)
    root = env.reset()
    assert (env.step(env.rand_action(root))["next", "reward"] == 2).all()
    env.transform[0].frame_skip = 3
    assert (env.step(env.rand_action(root))["next", "reward"] == 3).all()


def test_transforms_that_see_each_step_leave_it_to_torchrl(capsys):
    transforms = Compose(t.RewardSum(), t.FrameSkipTransform(2))
    print(explain(TransformedEnv(PoolEnv("CartPole-v1", N), transforms)))
    assert "put it first" in capsys.readouterr().out


# ---- Atari


class Emulators(PoolEnv):
    """A pool whose lives can be read as those of GymEnv."""

    @property
    def unwrapped(self):
        return SimpleNamespace(ale=SimpleNamespace(lives=self.lives))

    def lives(self):
        return self.shown.squeeze(-1).clone()

    def _step(self, tensordict):
        following = super()._step(tensordict)
        self.shown = following["lives"]
        return following

    def _reset(self, tensordict=None, **kwargs):
        root = super()._reset(tensordict, **kwargs)
        self.shown = root["lives"]
        return root


@pytest.mark.filterwarnings("ignore:The base_env is not a gym env")
@pytest.mark.parametrize("keys", [{}, {"eol_key": "over", "lives_key": "left"}], ids=str)
def test_lives_are_counted_as_torchrl_does(keys):
    data = []
    for kind, way in ((PoolEnv, fuse), (Emulators, lambda env: env)):
        pool = kind("ALE/Breakout-v5", 2, seed=0, info_keys=["lives"], max_episode_steps=60)
        env = way(TransformedEnv(pool, Compose(t.EndOfLifeTransform(**keys), t.RewardSum())))
        torch.manual_seed(0)
        data.append(env.rollout(150, break_when_any_done=False))
    assert data[0]["next", keys.get("eol_key", "end-of-life")].sum() > data[0]["next", "done"].sum()
    assert_same(*data, in_order=False)


def test_a_pool_that_does_not_give_lives_says_how(capsys):
    print(explain(TransformedEnv(PoolEnv("ALE/Breakout-v5", 2), t.EndOfLifeTransform())))
    assert 'info_keys=["lives"]' in capsys.readouterr().out


def test_random_actions_at_resets_are_torchrls(capsys):
    env = fuse(TransformedEnv(PoolEnv("CartPole-v1", 1, seed=0), Compose(t.NoopResetEnv(3), t.StepCounter())))
    print(explain(env))
    assert "noop_max" in capsys.readouterr().out
    assert env.rollout(3)["next", "step_count"].numel() == 3
