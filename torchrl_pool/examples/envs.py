"""The env that a training runs in: the pool with its transforms, all of them in the executor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torchrl.data import Categorical
from torchrl.envs import (
    CatFrames,
    ClipTransform,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    EnvBase,
    PermuteTransform,
    SignTransform,
    TransformedEnv,
    VecNormV2,
)

from torchrl_pool import PoolEnv, fuse, task_info
from torchrl_pool.examples.options import check_limits, expect, option

# Of no interest to those who run a training.
warnings.filterwarnings("ignore", "Support of VecNormV2 for containers", UserWarning)

GYMNASIUM = "gymnasium"
"""The family of Gymnasium's own envs, which run in worker processes."""


def family_of(task: str) -> str:
    """A task's family. Raises ValueError: there is no such task."""
    return GYMNASIUM if task.startswith(f"{GYMNASIUM}:") else task_info(task).family


@dataclass(frozen=True)
class EnvOptions:
    """The options of every program: which envs it trains in."""

    task: str = option(
        "CartPole-v1",
        "a task's id, see python -m torchrl_pool list; gymnasium:ID makes Gymnasium's own env",
        kept=True,
    )
    seed: int = option(0, "of networks, actions and simulators", least=0, below=1 << 62, kept=True)
    total_frames: int = option(1_000_000, "env steps to train for, rounded up to whole batches", least=1)
    num_envs: int = option(8, "simulators in the pool", least=1, kept=True)
    normalize_observations: bool = option(False, "by running moments, clipped to 10", kept=True)
    sign_rewards: bool = option(False, "learn from the signs of rewards (Atari)")
    episodic_life: bool = option(False, "learn as if a lost life ended the episode, which goes on (Atari)")
    sticky_actions: float = option(
        0.0, "probability that a game repeats the last action (Atari)", least=0, most=1, family="atari"
    )
    all_actions: bool = option(False, "all 18 actions of the joystick", kept=True, family="atari")
    num_workers: int | None = option(
        None,
        "worker processes of a pool, 0: none (gymnasium:ID); default: one for each processor",
        kind=int,
        least=0,
        family=GYMNASIUM,
    )

    # Not options, but what a program is like:
    clips_actions = False  # simulators get the nearest action that they can take; policies learn from theirs
    supports_images = False  # has networks for MiniGrid's grids and missions, and for CarRacing's pictures
    compiles = True  # has updates that torch.compile makes faster

    @property
    def num_updates(self) -> int:
        """Steps of the optimizer in the whole training."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses settings that cannot be, before anything is built."""
        check_limits(type(self), self)


def make_env(
    settings: EnvOptions, num_envs: int, seed: int, frozen: VecNormV2 | None = None, *, render: bool = False
) -> EnvBase:
    """The pool with its transforms, all of them in the executor.

    Args:
        settings: the training's.
        num_envs: simulators.
        seed: theirs.
        frozen: the normalizer of an env to evaluate in; None: the env is one to train in.
        render: whether it will be rendered.
    """
    family = family_of(settings.task)
    info_keys = ["episode_reward", "step_count"]
    options: dict[str, Any] = {}
    if settings.episodic_life:
        game = "a game of Atari's as --task, since --episodic-life, or a preset of Atari's, is set"
        expect(family == "atari", "episodic_life", game, repr(settings.task))
        info_keys.append("life_lost")
    if family == "atari":
        options["repeat_action_probability"] = settings.sticky_actions
        options["full_action_space"] = settings.all_actions
    if family == "dm_control":
        options["flatten"] = True
    is_grid = settings.supports_images and family == "minigrid"
    is_road = settings.supports_images and settings.task.startswith("CarRacing")
    if is_grid:
        options["mission"] = "words"
    if family == GYMNASIUM:
        options["num_workers"] = settings.num_workers
        if render:
            options["render_mode"] = "rgb_array"
    pool = PoolEnv(
        settings.task, num_envs, seed=seed, info_keys=info_keys, categorical_action_encoding=True, **options
    )
    if not is_grid and not is_road:
        check_entries(pool, info_keys)
    transforms: list[Any] = []
    if is_road:  # of pictures [96, 96, 3] the last two, [6, 96, 96]
        transforms = [PermuteTransform((-1, -3, -2), ["observation"]), CatFrames(2, -3, ["observation"])]
    observation = pool.observation_spec["image" if is_grid else "observation"]
    if settings.normalize_observations:
        is_float = observation.dtype.is_floating_point
        expect(is_float, "normalize_observations", "floating-point observations", observation.dtype)
        if observation.dtype is torch.float32:
            # An element that all envs begin with alike would have a variance below zero, and no root.
            transforms.append(DTypeCastTransform(torch.float32, torch.float64, in_keys=["observation"]))
        normalizer = frozen or VecNormV2(["observation"], decay=1.0, eps=1e-4, reduce_batch_dims=True)
        transforms += [normalizer, ClipTransform(["observation"], low=-10.0, high=10.0)]
    if observation.dtype is torch.float64 or settings.normalize_observations:
        transforms.append(DoubleToFloat(in_keys=["observation"]))
    rewards, actions = (
        [key] if spec.dtype is torch.float64 else []
        for key, spec in (("reward", pool.reward_spec), ("action", pool.action_spec))
    )
    if rewards or actions:
        transforms.append(DoubleToFloat(in_keys=rewards, in_keys_inv=actions))
    if settings.sign_rewards:  # episode_reward, which the executor adds up, stays the game's
        transforms.append(SignTransform(in_keys=["reward"]))
    if pool.action_spec.dtype.is_floating_point and settings.clips_actions:
        transforms.append(clip_actions(pool))
    return fuse(TransformedEnv(pool, Compose(*transforms))) if transforms else pool


def check_entries(pool: PoolEnv, info_keys: Sequence[str]) -> None:
    """Raises ValueError: the networks of the training programs have no use for such a task."""
    keys = [key for key in pool.observation_spec.keys(True, True) if key not in info_keys]
    names = ", ".join(repr(key if isinstance(key, str) else "/".join(key)) for key in keys)
    expect("observation" in keys, "task", "an entry 'observation'", names)
    observation, actions = pool.observation_spec_unbatched["observation"], pool.action_spec_unbatched
    shape = list(observation.shape)
    is_other_picture = observation.dtype is torch.uint8 and len(shape) > 1 and shape[1:] != [84, 84]
    expect(not is_other_picture, "task", "pictures [channels, 84, 84]", shape)
    is_choice = type(actions) is Categorical  # of one player, or of several
    is_vector = actions.dtype.is_floating_point and len(actions.shape) == 1
    given = f"{type(actions).__name__} {list(actions.shape)} of {actions.dtype}"
    expect(is_choice or is_vector, "task", "one with Discrete actions, or vectors of floats", given)


def clip_actions(pool: PoolEnv) -> ClipTransform:
    """Gives simulators the nearest actions that they can take; the policy learns from its own."""
    space = pool.action_spec_unbatched.space
    are_equal = bool((space.low == space.low[0]).all() and (space.high == space.high[0]).all())
    expect(are_equal, "policy", "tanh-normal where the elements of an action differ in bounds", "normal")
    bounds = {"low": space.low[0].item(), "high": space.high[0].item()}
    return ClipTransform(in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"], **bounds)


def pool_of(env: EnvBase) -> PoolEnv:
    """The pool below an env's transforms."""
    pool = env
    while isinstance(pool, TransformedEnv):
        pool = pool.base_env
    assert isinstance(pool, PoolEnv)
    return pool


def normalizer_of(env: EnvBase) -> VecNormV2 | None:
    """What normalizes an env's observations."""
    transforms = env.transform if isinstance(env, TransformedEnv) else []
    return next((one for one in transforms if isinstance(one, VecNormV2)), None)
