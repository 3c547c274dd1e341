"""What the descriptions of several transforms need to know of keys and of parameters."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torchrl.envs import Transform

from torchrl_pool import _core
from torchrl_pool.env.specs import Key
from torchrl_pool.transforms.program import NotNative, Program, Value


def keys_of(transform: Transform, program: Program) -> Iterable[tuple[Key, Key]]:
    """Pairs of keys, in the order in which TorchRL goes through them."""
    program.watch(transform.__dict__, "_in_keys", "_out_keys", "_in_keys_inv", "_out_keys_inv")
    return list(zip(transform.in_keys, transform.out_keys, strict=True))


def changes_inputs(transform: Transform, program: Program, actions: Iterable[Key]) -> None:
    """Takes note of what a transform does to what is handed in: to actions, as TorchRL's code has it."""
    keys = list(transform.in_keys_inv or [])
    if not keys:
        return
    if others := [key for key in keys if key not in set(actions)]:
        raise NotNative(f"its inverse changes {others[0]!r}, which is no action")
    program.inverse.append(transform)


def check_promotion(value: Value, *parameters: torch.Tensor | None) -> None:
    """Parameters of a wider dtype would widen the result."""
    like = torch.empty(2, dtype=value.dtype)
    for parameter in parameters:
        if parameter is not None and torch.result_type(like, parameter) != value.dtype:
            raise NotNative(f"parameters of {parameter.dtype} make {value.dtype} wider")


def map_affine(
    program: Program,
    key: Key,
    out_key: Key,
    value: Value,
    loc: torch.Tensor,
    scale: torch.Tensor,
    standard_normal: bool,
) -> None:
    """``value * scale + loc``; as standard normal ``(value - loc) / scale``."""
    check_promotion(value, loc, scale)
    program.map(
        key,
        out_key,
        _core.stages.affine,
        Value(value.shape, value.dtype),
        dtype=value.number,
        loc=program.parameter(loc, value.shape),
        scale=program.parameter(scale, value.shape),
        standard_normal=standard_normal,
    )


def map_clamp(
    program: Program,
    key: Key,
    out_key: Key,
    value: Value,
    low: torch.Tensor | None,
    high: torch.Tensor | None,
) -> None:
    check_promotion(value, low, high)
    program.map(
        key,
        out_key,
        _core.stages.clamp,
        Value(value.shape, value.dtype),
        dtype=value.number,
        low=program.parameter(low, value.shape),
        high=program.parameter(high, value.shape),
    )
