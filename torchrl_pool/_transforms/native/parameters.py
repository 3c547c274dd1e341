"""What the descriptions of several transforms need to know of keys, parameters and what transforms keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torchrl.envs import Transform

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain_builder import ChainBuilder, NotNative, Value


def keys_of(transform: Transform, builder: ChainBuilder) -> Iterable[tuple[Key, Key]]:
    """Pairs of keys, in the order in which TorchRL goes through them."""
    builder.watch(transform.__dict__, "_in_keys", "_out_keys", "_in_keys_inv", "_out_keys_inv")
    return list(zip(transform.in_keys, transform.out_keys, strict=True))


def read_floats(builder: ChainBuilder, key: Key) -> Value:
    """An entry of a floating-point dtype."""
    value = builder.read(key)
    if not value.dtype.is_floating_point:
        raise NotNative(f"{key!r} is {value.dtype}")
    return value


def changes_actions(transform: Transform, builder: ChainBuilder) -> None:
    """Takes note of what a transform does to actions on their way in, as TorchRL's code has it."""
    actions = {key for key, _, _ in builder.env._actions.layout}
    if others := [key for key in transform.in_keys_inv or [] if key not in actions]:
        raise NotNative(f"its inverse changes {others[0]!r}, which is no action")
    if transform.in_keys_inv:
        builder.inverse.append(transform)


class Flags:
    """What the flags among a transform's buffers say, which are written to where a state is loaded."""

    def __init__(self, transform: Transform) -> None:
        self._buffers = transform._buffers

    def get(self, name: str) -> bool | None:
        flag = self._buffers.get(name)
        return None if flag is None else bool(flag)


def check_promotion(value: Value, *parameters: torch.Tensor | None) -> None:
    """Parameters of a wider dtype would widen the result."""
    like = torch.empty(2, dtype=value.dtype)
    for parameter in parameters:
        if parameter is not None and torch.result_type(like, parameter) != value.dtype:
            raise NotNative(f"parameters of {parameter.dtype} make {value.dtype} wider")


def map_affine(
    builder: ChainBuilder,
    key: Key,
    out_key: Key,
    value: Value,
    loc: torch.Tensor,
    scale: torch.Tensor,
    standard_normal: bool,
) -> None:
    """``value * scale + loc``; as standard normal ``(value - loc) / scale``."""
    check_promotion(value, loc, scale)
    builder.map(
        key,
        out_key,
        _core.stages.affine,
        Value(value.shape, value.dtype),
        dtype=value.number,
        loc=builder.parameter(loc, value.shape),
        scale=builder.parameter(scale, value.shape),
        standard_normal=standard_normal,
    )


def map_clamp(
    builder: ChainBuilder,
    key: Key,
    out_key: Key,
    value: Value,
    low: torch.Tensor | None,
    high: torch.Tensor | None,
) -> None:
    check_promotion(value, low, high)
    builder.map(
        key,
        out_key,
        _core.stages.clamp,
        Value(value.shape, value.dtype),
        dtype=value.number,
        low=builder.parameter(low, value.shape),
        high=builder.parameter(high, value.shape),
    )


def check_resets(transform: Any, builder: ChainBuilder) -> None:
    """Of a transform that begins anew where its only reset key says so."""
    builder.watch(transform.__dict__, "_reset_key")
    try:
        key = transform.reset_key
    except RuntimeError as error:  # there are several
        raise NotNative(str(error)) from None
    if key != "_reset":
        raise NotNative(f"its reset key is {key!r}")


def needs_state(transform: Transform, builder: ChainBuilder, name: str) -> bool:
    """Whether a buffer in which a transform keeps what it has seen is still to be made."""
    if not builder.env._on_cpu:
        raise NotNative(f"its buffers are on {builder.env.device}")
    return isinstance(transform._buffers[name], UninitializedTensorMixin)


def address_of_state(
    builder: ChainBuilder, where: Any, key: Key, shape: torch.Size, dtype: torch.dtype
) -> int:
    """The address of a tensor that a transform keeps, which has to stay there."""
    tensor: Any = where.get(key)
    if type(tensor) is not torch.Tensor or tensor.shape != shape or tensor.dtype is not dtype:
        raise NotNative(f"its {key!r} is {tensor!r}, expected {dtype} {list(shape)}")
    if not tensor.is_cpu or not tensor.is_contiguous():
        raise NotNative(f"its {key!r} is on {tensor.device}, or not contiguous")
    if tensor.is_shared():  # type: ignore[no-untyped-call]
        raise NotNative(f"its {key!r} is in shared memory, where other processes may write to it, too")
    builder.watch(where, key)
    return builder.address_of(tensor)
