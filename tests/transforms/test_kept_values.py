"""What CatFrames, TimeMaxPool and TrajCounter keep is their users', whoever has written it."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from pipelines import OBS, assert_same
from torchrl.collectors import Collector
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import FusedEnv, PoolCollector, PoolEnv, explain, fuse

N = 4
FRAMES = "_cat_buffers_observation"


def over_pool(*transforms: t.Transform) -> TransformedEnv:
    return TransformedEnv(PoolEnv("CartPole-v1", N, seed=0), Compose(*transforms))


def fused(*transforms: t.Transform) -> FusedEnv:
    env = fuse(over_pool(*transforms))
    assert not env.fusion().rest, env.fusion().why_not
    return env


def play(env: TransformedEnv, steps: int = 30):
    torch.manual_seed(0)
    return env.rollout(steps, break_when_any_done=False)


def test_frames_can_be_read():
    frames = t.CatFrames(N=3, dim=-1, in_keys=OBS)
    env = fused(frames)
    root = env.reset()
    for _ in range(40):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
        assert torch.equal(frames._buffers[FRAMES], root["observation"])


def test_frames_count_when_they_are_written_to():
    frames = t.CatFrames(N=3, dim=-1, in_keys=OBS)
    env = fused(frames)
    root = env.reset()
    frames._buffers[FRAMES].fill_(7.0)
    shown = env.step(env.rand_action(root))["next", "observation"]
    assert (shown[:, :8] == 7).all()
    assert (shown[:, 8:] != 7).any()


def test_frames_that_are_replaced_are_those_that_count():
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    env = fused(frames)
    root = env.reset()
    frames._buffers[FRAMES] = torch.full((N, 8), 3.0)
    assert (env.step(env.rand_action(root))["next", "observation"][:, :4] == 3).all()
    assert not env.fusion().rest


def test_frames_are_saved_and_loaded():
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    env = fused(frames)
    play(env, 5)
    saved = deepcopy(env.state_dict())
    kept = frames._buffers[FRAMES].clone()
    play(env, 5)
    assert not torch.equal(frames._buffers[FRAMES], kept)
    env.load_state_dict(saved)
    assert torch.equal(frames._buffers[FRAMES], kept)


@pytest.mark.parametrize(
    "make", [lambda: t.CatFrames(3, -1, OBS), lambda: t.TimeMaxPool(OBS, T=3)], ids=["frames", "maxima"]
)
def test_an_episode_goes_on_where_its_env_is_fused(make):
    roots = []
    for way in (fuse, lambda env: env):
        env = over_pool(make())
        root = env.reset()
        for step in range(6):
            env = way(env) if step == 3 else env
            root = env.step_mdp(env.step(root.set("action", torch.tensor([1, 0]).repeat(N, 1))))
        roots.append(root)
    assert_same(*roots, in_order=False)


@pytest.mark.parametrize(
    "statistics", [VecNorm, lambda keys: t.VecNormV2(keys, reduce_batch_dims=True)], ids=["V1", "V2"]
)
def test_maxima_are_normalised_as_torchrl_does(statistics):
    """At a reset of some envs it normalises zeros for the others, which the executor does not have."""
    env = fuse(over_pool(t.TimeMaxPool(OBS, T=2), statistics(OBS)))
    assert env.fusion().num_native == 1
    reference = over_pool(t.TimeMaxPool(OBS, T=2), statistics(OBS))
    assert_same(play(env, 60), play(reference, 60), exact=False, in_order=False)


def test_sums_are_normalised_as_torchrl_does():
    def transforms():
        return t.RewardSum(), VecNorm(["episode_reward"])

    env = fuse(over_pool(*transforms()))
    assert env.fusion().num_native == 1
    assert_same(play(env, 60), play(over_pool(*transforms()), 60), in_order=False)


def test_frames_of_another_shape_are_left_to_torchrl(capsys):
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    frames._make_missing_buffer(torch.zeros(N + 1, 4), FRAMES)
    print(explain(over_pool(frames)))
    assert "expected torch.float32 [4, 8]" in capsys.readouterr().out


def test_frames_for_replay_buffers_are_left_to_torchrl():
    """Which says that there are none in an env."""
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    env = fused(frames)
    frames.mask_key = "mask"
    assert env.fusion().num_native == 0
    with pytest.raises(RuntimeError, match="only available offline"):
        env.reset()


def test_episodes_are_numbered_on():
    counter = t.TrajCounter()
    env = fused(counter)
    assert env.reset()["traj_count"].reshape(-1).tolist() == [0, 1, 2, 3]
    assert counter.state_dict() == {"traj_count": 4}
    other = fuse(over_pool(counter.clone()))
    assert other.reset()["traj_count"].reshape(-1).tolist() == [4, 5, 6, 7]
    counter.load_state_dict({"traj_count": 100})
    root = env.reset()
    assert root["traj_count"].reshape(-1).tolist() == [100, 101, 102, 103]
    mask = torch.tensor([[False], [True], [False], [True]])
    root = env.reset(env.rand_action(root).set("_reset", mask))
    assert root["traj_count"].reshape(-1).tolist() == [100, 104, 102, 105]


@pytest.mark.parametrize("kind", [Collector, PoolCollector])
@pytest.mark.parametrize("padding", ["same", "constant"])
def test_stacks_of_grey_pictures_are_torchrls(kind, padding):
    """One byte a pixel, as an Atari game's own preprocessing gives them."""
    batches = []
    for way, make in ((fuse, kind), (lambda env: env, Collector)):
        pool = PoolEnv("ALE/Pong-v5", 2, seed=0, stack_size=1, max_episode_steps=7)
        frames = t.CatFrames(N=4, dim=-3, in_keys=OBS, padding=padding, padding_value=3)
        env = way(TransformedEnv(pool, Compose(frames, t.SignTransform(["reward"]), t.RewardSum())))
        torch.manual_seed(0)
        collector = make(env, None, frames_per_batch=20, total_frames=40)
        batches.append([batch.clone() for batch in collector])
    assert batches[0][0]["observation"].shape[-3:] == (4, 84, 84)
    for ours, theirs in zip(*batches, strict=True):
        assert_same(ours, theirs, in_order=False)
