"""CatFrames: the frames of an episode, which stay in the transform and are written there."""

from __future__ import annotations

from math import prod

import torch
from torchrl.envs.transforms import CatFrames

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import address_of_state, check_resets, keys_of, needs_state


def cat_frames(transform: CatFrames, program: Program) -> None:
    names = ("N", "dim", "padding", "padding_value", "as_inverse", "future", "mask_key")
    program.watch(transform.__dict__, *names)
    if transform.as_inverse or transform.future or transform.mask_key is not None:
        raise NotNative("its options are for replay buffers (as_inverse, future or mask_key)")
    check_resets(transform, program)
    for key, out_key in keys_of(transform, program):
        value = program.read(key)
        dim = len(value.shape) + transform.dim
        if not value.at_resets or dim < 0:
            raise NotNative(f"{key!r} has rows of shape {list(value.shape)}, or is not there at resets")
        shape = list(value.shape)
        shape[dim] *= transform.N
        out = Value(torch.Size(shape), value.dtype)
        program.add(
            _core.stages.cat_frames,
            reads=[value],
            writes=[out],
            in_=value,
            out=out,
            kept=_kept(transform, program, key, value, out),
            blocks=prod(value.shape[:dim]),
            frames=transform.N,
            bytes=prod(value.shape[dim:]) * value.dtype.itemsize,
            padding=_padding(transform, value.shape[dim:], value.dtype),
        )
        program.write(out_key, out)


def _kept(transform: CatFrames, program: Program, key: Key, value: Value, out: Value) -> int:
    """The address of all envs' frames."""
    name, num_envs = f"_cat_buffers_{key}", program.env.num_envs
    if needs_state(transform, program, name):
        data = torch.zeros((num_envs, *value.shape), dtype=value.dtype, device="cpu")
        transform._make_missing_buffer(data, name)
    shape = torch.Size((num_envs, *out.shape))
    return address_of_state(program, transform._buffers, name, shape, out.dtype)


def _padding(transform: CatFrames, shape: torch.Size, dtype: torch.dtype) -> bytes:
    """What stands in the place of a frame before the first one; empty: the first one itself."""
    if transform.padding == "same":
        return b""
    return torch.full(shape, transform.padding_value, dtype=dtype, device="cpu").numpy().tobytes()
