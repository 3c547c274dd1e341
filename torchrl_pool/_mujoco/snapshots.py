"""One env's state as bytes: the simulation's own, and the row that a task's functions last saw."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

_LENGTH = struct.Struct("<Q")


def join_state(physics: bytes, row: TensorDictBase) -> bytes:
    """The bytes of an env."""
    parts = [_LENGTH.pack(len(physics)), physics]
    parts += [_bytes_of(tensor) for _, tensor in _tensors(row)]
    return b"".join(parts)


def split_states(states: Sequence[Any], rows: TensorDictBase) -> list[bytes]:
    """What :func:`join_state` joined of some envs: the simulations; ``rows`` (``[k, …]``) become the others.

    Raises:
        TypeError, ValueError: these are no bytes of such envs; ``rows`` are then of no use.
    """
    tensors = _tensors(rows)
    sizes = [tensor[0].numel() * tensor.element_size() if len(states) else 0 for _, tensor in tensors]
    physics, rest = [], []
    for state in states:
        if not isinstance(state, bytes):
            raise TypeError(f"state: expected bytes, got {type(state).__name__}")
        length = _LENGTH.unpack_from(state)[0] if len(state) >= _LENGTH.size else -1
        if len(state) != _LENGTH.size + length + sum(sizes):
            raise ValueError("the saved state is of another model, or of other fields")
        physics.append(state[_LENGTH.size : _LENGTH.size + length])
        rest.append(state[_LENGTH.size + length :])
    if not any(sizes):
        return physics
    table = torch.frombuffer(bytearray(b"".join(rest)), dtype=torch.uint8).reshape(len(states), -1)
    for (key, tensor), raw in zip(tensors, torch.split(table, sizes, 1), strict=True):
        if not raw.numel():
            continue
        if tensor.dtype is torch.bool and int(raw.max()) > 1:
            raise ValueError("corrupt saved state: a value is out of its range")
        aligned = raw.clone(memory_format=torch.contiguous_format).view(-1)
        rows.set(key, aligned.view(tensor.dtype).reshape(tensor.shape).to(tensor.device))
    return physics


def _tensors(row: TensorDictBase) -> list[tuple[str, torch.Tensor]]:
    """Those that a reset writes: all but rewards and pictures."""
    return sorted((key, value) for key, value in row.items() if key not in ("reward", "pixels"))


def _bytes_of(tensor: torch.Tensor) -> bytes:
    raw: bytes = tensor.cpu().contiguous().numpy().tobytes()
    return raw
