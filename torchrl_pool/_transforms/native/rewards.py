"""What is done to a reward alone, number by number: RewardScaling, RewardClipping, BinarizeReward."""

from __future__ import annotations

import torch
from torchrl.envs.transforms import BinarizeReward, RewardClipping, RewardScaling

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import Flags, keys_of, map_affine, map_clamp


def reward_scaling(transform: RewardScaling, program: Program) -> None:
    program.watch(transform._buffers, "loc", "scale")
    program.watch(Flags(transform), "standard_normal")
    for key, out_key in keys_of(transform, program):
        reward = _reward(program, key)
        map_affine(
            program, key, out_key, reward, transform.loc, transform.scale, bool(transform.standard_normal)
        )


def reward_clipping(transform: RewardClipping, program: Program) -> None:
    program.watch(transform._buffers, "clamp_min", "clamp_max")
    for key, out_key in keys_of(transform, program):
        map_clamp(program, key, out_key, _reward(program, key), transform.clamp_min, transform.clamp_max)


def binarize_reward(transform: BinarizeReward, program: Program) -> None:
    for key, out_key in keys_of(transform, program):
        reward = _reward(program, key)
        if not reward.shape or reward.shape[-1] != 1:
            raise NotNative(f"{key!r} has rows of shape {list(reward.shape)}")
        out = Value(reward.shape, torch.int8)
        program.map(key, out_key, _core.stages.is_positive, out, dtype=reward.number)


def _reward(program: Program, key: Key) -> Value:
    """Of these transforms resets know nothing."""
    value = program.read(key)
    if value.at_resets:
        raise NotNative(f"{key!r} is no reward")
    if not value.dtype.is_floating_point:
        raise NotNative(f"{key!r} is {value.dtype}")
    return value
