"""The env that a training runs in: the pool with its transforms, all of them in the executor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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

from torchrl_pool import PoolEnv, fuse
from torchrl_pool.examples.options import GYMNASIUM, EnvOptions, expect, family_of

# Of no interest to those who run a training.
warnings.filterwarnings("ignore", "Support of VecNormV2 for containers", UserWarning)


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
