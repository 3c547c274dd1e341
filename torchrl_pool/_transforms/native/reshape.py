"""Elements that only move: entries joined, cut, turned around, flattened, renamed and left out."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torchrl.envs import Transform
from torchrl.envs.transforms import (
    ActionScaling,
    CatTensors,
    ExcludeTransform,
    RenameTransform,
    SelectTransform,
    Stack,
    ToTensorImage,
)

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain_builder import NUMBERS, ChainBuilder, NotNative, Value
from torchrl_pool._transforms.native.parameters import changes_actions, keys_of

_FULL_BYTE = torch.tensor(255.0)
_NOTHING = torch.tensor(0.0)


def reshaped(transform: Transform, builder: ChainBuilder) -> None:
    """FlattenObservation, UnsqueezeTransform, SqueezeTransform, PermuteTransform, CenterCrop."""
    builder.watch(transform.__dict__, "first_dim", "last_dim", "_dim", "dims", "permute_dims", "w", "h")
    changes_actions(transform, builder)
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        builder.write(out_key, moved(builder, value, transform._apply_transform))


def to_tensor_image(transform: ToTensorImage, builder: ChainBuilder) -> None:
    """Channels first, as numbers from 0 to 1."""
    builder.watch(transform.__dict__, "from_int", "unsqueeze", "dtype", "shape_tolerant")
    dtype = transform.dtype
    if dtype not in (torch.float32, torch.float64):
        raise NotNative(f"it makes {dtype}")
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        if len(value.shape) != 3:
            raise NotNative(
                f"{key!r} has rows of shape {list(value.shape)}: expected height, width, channels"
            )
        if not transform.shape_tolerant or value.shape[-1] == 3:
            value = moved(builder, value, lambda image: image.permute(0, 3, 1, 2))
        floats = value.dtype.is_floating_point
        if transform.from_int or (transform.from_int is None and not floats):
            if not floats:
                value = _cast(builder, value, torch.float32)
            divided = Value(value.shape, value.dtype)
            builder.add(
                _core.stages.affine,
                reads=[value],
                writes=[divided],
                in_=value,
                out=divided,
                size=value.size,
                dtype=value.number,
                loc=builder.parameter(_NOTHING, value.shape),
                scale=builder.parameter(_FULL_BYTE, value.shape),
                standard_normal=True,
            )
            value = divided
        builder.write(out_key, _cast(builder, value, dtype))


def cat_tensors(transform: CatTensors, builder: ChainBuilder) -> None:
    if not transform._initialized:  # as its own code does
        transform.in_keys, transform._initialized = transform._find_in_keys(), True
    builder.watch(transform.__dict__, "_in_keys", "_out_keys", "dim", "_del_keys", "unsqueeze_if_oor")
    keys = list(transform.in_keys)
    values = [builder.read(key) for key in keys]
    dims = len(values[0].shape)
    dim = transform.dim if transform.dim < 0 else transform.dim - dims - 1
    fits = all(len(value.shape) == dims for value in values) and -dims <= dim < 0
    if not fits or len({value.shape[:dim] + value.shape[dims + dim + 1 :] for value in values}) > 1:
        raise NotNative(f"its entries have rows of shapes {[list(value.shape) for value in values]}")
    shape = list(values[0].shape)
    shape[dim] = sum(value.shape[dim] for value in values)
    out = _joined(builder, values, torch.Size(shape), dims + dim)
    _replace(builder, keys if transform._del_keys else [], transform.out_keys[0], out)


def stack(transform: Stack, builder: ChainBuilder) -> None:
    builder.watch(transform.__dict__, "_in_keys", "_out_keys", "_in_keys_inv", "dim", "_del_keys")
    if transform.in_keys_inv:
        raise NotNative("its inverse takes entries apart")
    keys = list(transform.in_keys)
    values = [builder.read(key) for key in keys]
    dims = len(values[0].shape) + 1
    if any(value.shape != values[0].shape for value in values) or not -dims <= transform.dim < 0:
        raise NotNative(f"its entries have rows of shapes {[list(value.shape) for value in values]}")
    shape = list(values[0].shape)
    shape.insert(dims + transform.dim, len(values))
    out = _joined(builder, values, torch.Size(shape), dims + transform.dim)
    _replace(builder, keys if transform._del_keys else [], transform.out_keys[0], out)


def rename(transform: RenameTransform, builder: ChainBuilder) -> None:
    builder.watch(transform.__dict__, "create_copy")
    changes_actions(transform, builder)
    for key, out_key in keys_of(transform, builder):
        value = builder.read(key)
        if key in builder.flags:
            raise NotNative(f"it renames the flag {key!r}")
        if not transform.create_copy:
            builder.remove(key)
        builder.write(out_key, value)


def exclude(transform: ExcludeTransform, builder: ChainBuilder) -> None:
    builder.watch(transform.__dict__, "excluded_keys", "inverse")
    if transform.inverse:
        raise NotNative("it leaves out entries of what is handed in")
    for key in transform.excluded_keys:
        builder.remove(key)


def select(transform: SelectTransform, builder: ChainBuilder) -> None:
    builder.watch(transform.__dict__, "selected_keys", "keep_reward_keys", "keep_done_keys")
    parent = transform.parent
    rewards, flags = list(parent.reward_keys), list(parent.done_keys)
    kept = [*transform.selected_keys]
    for key in kept:
        builder.refuse_group(key)
    kept += [*(rewards if transform.keep_reward_keys else []), *(flags if transform.keep_done_keys else [])]
    kept += parent.state_spec.keys(True, True)
    if missing := [key for key in (*rewards, *flags) if key not in kept]:
        raise NotNative(f"it leaves out {missing[0]!r}, a reward or a flag")
    for key in [key for key in builder.entries if key not in kept]:
        builder.remove(key)
    builder.entries = {key: builder.entries[key] for key in kept if key in builder.entries}


def action_scaling(transform: ActionScaling, builder: ChainBuilder) -> None:
    builder.watch(transform.__dict__, "_in_keys", "_in_keys_inv", "_out_keys_inv", "standard_normal")
    if transform.in_keys:
        raise NotNative(f"it changes {transform.in_keys[0]!r} on the way out, too")
    changes_actions(transform, builder)


def moved(builder: ChainBuilder, value: Value, move: Any) -> Value:
    """What torch makes of a value by another view of it."""
    num_envs = builder.env.num_envs
    whole = torch.empty((num_envs, *value.shape), dtype=value.dtype)
    view = move(whole)
    if view.data_ptr() - whole.data_ptr() != view.storage_offset() * whole.itemsize:
        raise NotNative("it does more than reshape entries")
    if view.shape[0] != num_envs or (num_envs > 1 and view.stride(0) != value.size):
        raise NotNative(f"it changes the batch size to {list(view.shape)}")
    out = Value(torch.Size(view.shape[1:]), value.dtype)
    _copy(builder, [value], value, out, view.shape[1:], view.stride()[1:], view.storage_offset(), 0, None)
    return out


def _cast(builder: ChainBuilder, value: Value, dtype: torch.dtype) -> Value:
    if value.dtype is dtype:
        return value
    out = Value(value.shape, dtype)
    numbers: dict[str, Any] = {"from_dtype": value.number, "to_dtype": NUMBERS[dtype]}
    builder.add(
        _core.stages.cast, reads=[value], writes=[out], in_=value, out=out, size=value.size, **numbers
    )
    return out


def _joined(builder: ChainBuilder, values: Sequence[Value], shape: torch.Size, dim: int) -> Value:
    """One value out of several: at this dimension of the result their parts lie side by side."""
    if len({value.dtype for value in values}) > 1 or len({value.at_resets for value in values}) > 1:
        raise NotNative("its entries are not of one kind")
    out = Value(shape, values[0].dtype)
    whole, offset = prod(shape[dim:]), 0
    for value in values:
        outer = prod(shape[:dim])
        part = value.size // outer
        _copy(builder, values, value, out, (outer, part), (part, 1), 0, offset, (whole, 1))
        offset += part
    return out


def _copy(
    builder: ChainBuilder,
    reads: Sequence[Value],
    value: Value,
    out: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    from_offset: int,
    to_offset: int,
    to_strides: Sequence[int] | None,
) -> None:
    """A stage that copies a box. Numbers of elements; without ``to_strides`` the result is dense."""
    item = value.dtype.itemsize
    if to_strides is None:
        to_strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    sizes, strides, to_strides, bytes_ = list(sizes), list(strides), list(to_strides), item
    while sizes and strides[-1] * item == to_strides[-1] * item == bytes_:  # in one piece
        bytes_ *= sizes.pop()
        strides.pop()
        to_strides.pop()
    builder.add(
        _core.stages.copy,
        reads=list(reads),
        writes=[out],
        in_=value,
        out=out,
        sizes=sizes,
        from_strides=[stride * item for stride in strides],
        to_strides=[stride * item for stride in to_strides],
        from_offset=from_offset * item,
        to_offset=to_offset * item,
        bytes=bytes_,
    )


def copied(builder: ChainBuilder, value: Value, out: Value) -> None:
    """A stage that copies a value as it is."""
    _copy(builder, [value], value, out, (value.size,), (1,), 0, 0, None)


def _replace(builder: ChainBuilder, keys: Sequence[Key], out_key: Key, out: Value) -> None:
    builder.write(out_key, out)
    for key in keys:
        if key != out_key:
            builder.remove(key)
