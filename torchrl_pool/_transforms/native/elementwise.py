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
from torchrl_pool._transforms.ir import NUMBERS, NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import (
    Flags,
    changes_actions,
    keys_of,
    map_affine,
    map_clamp,
    read_floats,
)


def dtype_cast(transform: DTypeCastTransform, program: Program) -> None:
    """In another dtype; actions back."""
    program.watch(transform.__dict__, "dtype_in", "dtype_out")
    pairs = list(keys_of(transform, program))
    changes_actions(transform, program)
    dtype = transform.dtype_out
    for key, out_key in pairs:
        value = program.read(key)
        if value.dtype is dtype:
            program.write(out_key, value)
            continue
        if not dtype.is_floating_point or dtype not in NUMBERS:
            raise NotNative(f"it makes {value.dtype} into {dtype}")
        program.map(
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


def observation_norm(transform: ObservationNorm, program: Program) -> None:
    program.watch(transform._buffers, "loc", "scale")
    program.watch(_Kinds(transform._buffers), "loc", "scale")
    program.watch(Flags(transform), "standard_normal")
    if any(isinstance(buffer, UninitializedTensorMixin) for buffer in (transform.loc, transform.scale)):
        raise NotNative("its loc and scale are not known yet")
    changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        value = read_floats(program, key)
        map_affine(
            program, key, out_key, value, transform.loc, transform.scale, bool(transform.standard_normal)
        )


def clip(transform: ClipTransform, program: Program) -> None:
    program.watch(transform._buffers, "low", "high")
    changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        map_clamp(program, key, out_key, read_floats(program, key), transform.low, transform.high)


def sign(transform: SignTransform, program: Program) -> None:
    changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        value = program.read(key)
        if value.dtype is torch.bool:
            raise NotNative(f"{key!r} is a flag")
        out = Value(value.shape, value.dtype)
        program.map(key, out_key, _core.stages.sign, out, dtype=value.number)


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
