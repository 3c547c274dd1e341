"""Entries changed number by number: casts, and norms, bounds and signs of observations and rewards."""

from __future__ import annotations

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torchrl.envs.transforms import (
    BinarizeReward,
    ClipTransform,
    DTypeCastTransform,
    ObservationNorm,
    RewardClipping,
    RewardScaling,
    SignTransform,
)

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain_builder import NUMBERS, ChainBuilder, NotNative, Value
from torchrl_pool._transforms.native.parameters import (
    Flags,
    changes_actions,
    keys_of,
    map_affine,
    map_clamp,
    read_floats,
)


def dtype_cast(transform: DTypeCastTransform, builder: ChainBuilder) -> None:
    """In another dtype; actions back."""
    builder.watch(transform.__dict__, "dtype_in", "dtype_out")
    pairs = list(keys_of(transform, builder))
    changes_actions(transform, builder)
    dtype = transform.dtype_out
    for key, out_key in pairs:
        value = builder.read(key)
        if value.dtype is dtype:
            builder.write(out_key, value)
            continue
        if not dtype.is_floating_point or dtype not in NUMBERS:
            raise NotNative(f"it makes {value.dtype} into {dtype}")
        builder.map(
            key,
            out_key,
            _core.stages.cast,
            Value(value.shape, dtype),
            from_dtype=value.number,
            to_dtype=NUMBERS[dtype],
        )


class _Kinds:
    """The classes of tensors, which change where one is given its shape."""

    def __init__(self, tensors: dict[str, torch.Tensor | None]) -> None:
        self._tensors = tensors

    def get(self, name: str) -> type:
        return type(self._tensors.get(name))


def observation_norm(transform: ObservationNorm, builder: ChainBuilder) -> None:
    builder.watch(transform._buffers, "loc", "scale")
    builder.watch(_Kinds(transform._buffers), "loc", "scale")
    builder.watch(Flags(transform), "standard_normal")
    if any(isinstance(buffer, UninitializedTensorMixin) for buffer in (transform.loc, transform.scale)):
        raise NotNative("its loc and scale are not known yet")
    changes_actions(transform, builder)
    for key, out_key in keys_of(transform, builder):
        value = read_floats(builder, key)
        map_affine(
            builder, key, out_key, value, transform.loc, transform.scale, bool(transform.standard_normal)
        )


def clip(transform: ClipTransform, builder: ChainBuilder) -> None:
    builder.watch(transform._buffers, "low", "high")
    changes_actions(transform, builder)
    for key, out_key in keys_of(transform, builder):
        map_clamp(builder, key, out_key, read_floats(builder, key), transform.low, transform.high)


def sign(transform: SignTransform, builder: ChainBuilder) -> None:
    changes_actions(transform, builder)
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        if value.dtype is torch.bool:
            raise NotNative(f"{key!r} is a flag")
        out = Value(value.shape, value.dtype)
        builder.map(key, out_key, _core.stages.sign, out, dtype=value.number)


def reward_scaling(transform: RewardScaling, builder: ChainBuilder) -> None:
    builder.watch(transform._buffers, "loc", "scale")
    builder.watch(Flags(transform), "standard_normal")
    for key, out_key in keys_of(transform, builder):
        reward = _reward(builder, key)
        map_affine(
            builder, key, out_key, reward, transform.loc, transform.scale, bool(transform.standard_normal)
        )


def reward_clipping(transform: RewardClipping, builder: ChainBuilder) -> None:
    builder.watch(transform._buffers, "clamp_min", "clamp_max")
    for key, out_key in keys_of(transform, builder):
        map_clamp(builder, key, out_key, _reward(builder, key), transform.clamp_min, transform.clamp_max)


def binarize_reward(transform: BinarizeReward, builder: ChainBuilder) -> None:
    for key, out_key in keys_of(transform, builder):
        reward = _reward(builder, key)
        if not reward.shape or reward.shape[-1] != 1:
            raise NotNative(f"{key!r} has rows of shape {list(reward.shape)}")
        out = Value(reward.shape, torch.int8)
        builder.map(key, out_key, _core.stages.is_positive, out, dtype=reward.number)


def _reward(builder: ChainBuilder, key: Key) -> Value:
    """Of these transforms resets know nothing."""
    value = builder.read(key)
    if value.at_resets:
        raise NotNative(f"{key!r} is no reward")
    if not value.dtype.is_floating_point:
        raise NotNative(f"{key!r} is {value.dtype}")
    return value
