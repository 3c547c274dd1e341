"""What the descriptions of several transforms need to know of keys, parameters and what transforms keep."""

from __future__ import annotations

import multiprocessing.synchronize
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torchrl.envs import Transform

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import NotNative, Program, Value


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


def check_resets(transform: Any, program: Program) -> None:
    """Of a transform that begins anew where its only reset key says so."""
    program.watch(transform.__dict__, "_reset_key")
    try:
        key = transform.reset_key
    except RuntimeError as error:  # there are several
        raise NotNative(str(error)) from None
    if key != "_reset":
        raise NotNative(f"its reset key is {key!r}")


def needs_state(transform: Transform, program: Program, name: str) -> bool:
    """Whether a buffer in which a transform keeps what it has seen is still to be made."""
    if not program.env._on_cpu:
        raise NotNative(f"its buffers are on {program.env.device}")
    return isinstance(transform._buffers[name], UninitializedTensorMixin)


def address_of_state(program: Program, where: Any, key: Key, shape: torch.Size, dtype: torch.dtype) -> int:
    """The address of a tensor that a transform keeps, which has to stay there."""
    tensor: Any = where.get(key)
    if type(tensor) is not torch.Tensor or tensor.shape != shape or tensor.dtype is not dtype:
        raise NotNative(f"its {key!r} is {tensor!r}, expected {dtype} {list(shape)}")
    if not tensor.is_cpu or not tensor.is_contiguous():
        raise NotNative(f"its {key!r} is on {tensor.device}, or not contiguous")
    program.watch(where, key)
    return program.address_of(tensor)


def lock_handle(lock: Any) -> int:
    """The address of the semaphore behind a lock between processes."""
    if lock is None:
        return 0
    if type(lock) not in (multiprocessing.synchronize.Lock, multiprocessing.synchronize.RLock):
        raise NotNative(f"its lock is a {type(lock).__name__}")
    semaphore: Any = lock
    return int(semaphore._semlock.handle)
