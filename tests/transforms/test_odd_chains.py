"""Chains in which random ones have differed from TorchRL's."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from cases import cases
from pipelines import OBS, assert_same
from playing import play
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import PoolCollector, PoolEnv, fuse

N = 3


def over_pool(*transforms, task="CartPole-v1", **options):
    return TransformedEnv(PoolEnv(task, N, seed=0, **options), Compose(*transforms))


def itself(env):
    return env


class Pictures(gym.Env):
    """Two entries that agree in the number of their dimensions alone."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, rows):
        shapes = {"p": (2, 2), "q": (rows, 1)}
        self.observation_space = gym.spaces.Dict(
            {key: gym.spaces.Box(-9, 9, shape, np.float32) for key, shape in shapes.items()}
        )

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize("rows", cases([1, 8]))
def test_entries_that_cannot_be_joined(rows):
    pool = PoolEnv(lambda: Pictures(rows), N, num_workers=0)
    env = fuse(TransformedEnv(pool, t.CatTensors(["p", "q"], "both")))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        env.reset()


@pytest.mark.parametrize(
    "make",
    cases(
        default=[
            lambda key: t.TimeMaxPool(key, key, T=1),
            lambda key: t.FlattenObservation(-1, -1, key, key),
            lambda key: t.CatFrames(1, -1, key, key),
        ],
        also=[lambda key: t.SignTransform(key, key)],
    ),
)
def test_what_changes_the_number_of_an_episode(make):
    """It is written in the first phase and again in the second."""

    def chain():
        return over_pool(t.TrajCounter(), make(["traj_count"]), max_episode_steps=3)

    assert_same(play(fuse(chain())), play(chain()))


def norms():
    return [VecNorm(OBS, decay=0.9), t.VecNormV2(OBS, decay=0.9, reduce_batch_dims=True)]


class Seen(t.Transform):
    """The first observations that a reset shows to transforms."""

    def _reset(self, tensordict, tensordict_reset):
        self.rows = tensordict_reset["observation"].tolist()
        self.keys = set(tensordict.keys())
        return tensordict_reset


@pytest.mark.parametrize("behind", [Seen, lambda: norms()[0], lambda: norms()[1]])
@pytest.mark.parametrize(
    "first",
    cases(default=[t.RewardSum, t.InitTracker], also=[lambda: t.ObservationNorm(0.5, 2.0, in_keys=OBS)]),
)
def test_a_transform_that_steps_its_parent(first, behind):
    """FrameSkipTransform does: the pool is then further than the native part of the chain."""

    def reset_one(wrap):
        env = wrap(over_pool(first(), t.FrameSkipTransform(2), behind(), task="HalfCheetah-v5"))
        torch.manual_seed(0)
        _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
        root = env.reset(root.set("_reset", torch.tensor([[False], [True], [False]])))
        _, following = env.step_and_maybe_reset(env.rand_action(root))
        return env.transform[-1], root, following

    ours, *roots = reset_one(fuse)
    theirs, *expected = reset_one(itself)
    for root, one in zip(roots, expected, strict=True):
        assert_same(root, one, exact=False)
    assert getattr(ours, "rows", None) == getattr(theirs, "rows", None)


def test_steps_that_are_limited_to_none():
    env = fuse(over_pool(t.StepCounter(5)))
    play(env)
    env.transform[0].max_steps = 0
    with pytest.raises(RuntimeError, match=r"'truncated' was \(partially\) True after a call to reset"):
        env.reset()


def test_a_reward_over_an_observation_leaves_roots_their_entry():
    def chain():
        return over_pool(t.RenameTransform(["reward"], OBS, create_copy=True))

    root = fuse(chain()).reset()
    assert root["observation"].shape == chain().reset()["observation"].shape


# ---- collectors


def batches(kind, env, count=2, **options):
    torch.manual_seed(0)
    collector = kind(env, None, frames_per_batch=N * 40, total_frames=count * N * 40, **options)
    yield from collector


@pytest.mark.parametrize("double_buffered", cases([False, True]))
def test_a_memory_that_begins_otherwise(double_buffered):
    def collected(kind, **options):
        primer = t.TensorDictPrimer({"h": Unbounded((1,))}, default_value=0.5, expand_specs=True)
        seen = []
        env = over_pool(primer, max_episode_steps=3)
        for number, batch in enumerate(batches(kind, env, **options)):
            seen.append(batch["h"].clone())
            primer.default_value = {"h": 2.0 + number}
        return torch.stack(seen)

    ours = collected(PoolCollector, double_buffered=double_buffered)
    assert torch.equal(ours, collected(Collector))
    assert 2 in ours


@pytest.mark.parametrize(
    "make",
    cases(
        default=[lambda: over_pool(t.StepCounter(3, update_done=False)), lambda: over_pool(t.StepCounter(3))],
        also=[lambda: fuse(over_pool(t.EndOfLifeTransform(), task="ALE/Breakout-v5", info_keys=["lives"]))],
    ),
)
def test_trajectories_end_with_any_flag(make):
    ours, theirs = (
        [batch["collector", "traj_ids"].clone() for batch in batches(kind, make(), 3)]
        for kind in (PoolCollector, Collector)
    )
    assert torch.equal(torch.stack(ours), torch.stack(theirs))
