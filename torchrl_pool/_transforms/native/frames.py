"""Pictures and frames: one plane of grey, and an episode's latest values, which stay in the transform."""

from __future__ import annotations

from math import prod

import torch
from tensordict import TensorDict
from torchrl.envs.transforms import CatFrames, GrayScale, TimeMaxPool

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain_builder import NUMBERS, ChainBuilder, NotNative, Value
from torchrl_pool._transforms.native.parameters import address_of_state, check_resets, keys_of, needs_state


def gray_scale(transform: GrayScale, builder: ChainBuilder) -> None:
    """One plane of grey out of three of colours."""
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        shape = value.shape
        if len(shape) < 3 or shape[-3] != 3 or value.dtype is torch.bool:
            raise NotNative(
                f"{key!r} has rows of shape {list(shape)} and {value.dtype}: expected three channels"
            )
        out = Value(torch.Size((*shape[:-3], 1, *shape[-2:])), value.dtype)
        builder.add(
            _core.stages.gray_scale,
            reads=[value],
            writes=[out],
            in_=value,
            out=out,
            dtype=value.number,
            real=NUMBERS[torch.result_type(torch.empty(1, dtype=value.dtype), 0.5)],
            pictures=prod(shape[:-3]),
            plane=prod(shape[-2:]),
        )
        builder.write(out_key, out)


def cat_frames(transform: CatFrames, builder: ChainBuilder) -> None:
    """The frames of an episode, which stay in the transform and are written there."""
    names = ("N", "dim", "padding", "padding_value", "as_inverse", "future", "mask_key")
    builder.watch(transform.__dict__, *names)
    if transform.as_inverse or transform.future or transform.mask_key is not None:
        raise NotNative("its options are for replay buffers (as_inverse, future or mask_key)")
    check_resets(transform, builder)
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        dim = len(value.shape) + transform.dim
        if not value.at_resets or dim < 0:
            raise NotNative(f"{key!r} has rows of shape {list(value.shape)}, or is not there at resets")
        shape = list(value.shape)
        shape[dim] *= transform.N
        out = Value(torch.Size(shape), value.dtype)
        builder.add(
            _core.stages.cat_frames,
            reads=[value],
            writes=[out],
            in_=value,
            out=out,
            kept=_frames_of(transform, builder, key, value, out),
            blocks=prod(value.shape[:dim]),
            frames=transform.N,
            bytes=prod(value.shape[dim:]) * value.dtype.itemsize,
            padding=_padding(transform, value.shape[dim:], value.dtype),
        )
        builder.write(out_key, out)


def _frames_of(transform: CatFrames, builder: ChainBuilder, key: Key, value: Value, out: Value) -> int:
    """The address of all envs' frames."""
    name, num_envs = f"_cat_buffers_{key}", builder.env.num_envs
    if needs_state(transform, builder, name):
        data = torch.zeros((num_envs, *value.shape), dtype=value.dtype, device="cpu")
        transform._make_missing_buffer(data, name)
    shape = torch.Size((num_envs, *out.shape))
    return address_of_state(builder, transform._buffers, name, shape, out.dtype)


def _padding(transform: CatFrames, shape: torch.Size, dtype: torch.dtype) -> bytes:
    """What stands in the place of a frame before the first one; empty: the first one itself."""
    if transform.padding == "same":
        return b""
    return torch.full(shape, transform.padding_value, dtype=dtype, device="cpu").numpy().tobytes()


def time_max_pool(transform: TimeMaxPool, builder: ChainBuilder) -> None:
    """The latest values of an episode, which stay in the transform and are written there."""
    builder.watch(transform.__dict__, "buffer_size")
    check_resets(transform, builder)
    if len(set(transform.in_keys)) < len(transform.in_keys):
        raise NotNative("an entry is twice in its in_keys")
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        if not value.at_resets or value.dtype is torch.bool:
            raise NotNative(f"{key!r} is {value.dtype}, or is not there at resets")
        builder.map(
            key,
            out_key,
            _core.stages.time_max_pool,
            Value(value.shape, value.dtype),
            dtype=value.number,
            kept=_values_of(transform, builder, key, value),
            times=transform.buffer_size,
            num_envs=builder.env.num_envs,
        )


def _values_of(transform: TimeMaxPool, builder: ChainBuilder, key: Key, value: Value) -> int:
    """The address of all envs' latest values."""
    name, num_envs = transform._buffer_name(key), builder.env.num_envs
    if needs_state(transform, builder, name):
        data = {key: torch.zeros((num_envs, *value.shape), dtype=value.dtype, device="cpu")}
        transform._make_missing_buffer(TensorDict(data, [num_envs]), key, name)
    shape = torch.Size((transform.buffer_size, num_envs, *value.shape))
    return address_of_state(builder, transform._buffers, name, shape, value.dtype)
