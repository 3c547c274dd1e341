"""One env's state as bytes: the simulation's own, and the row that a task's functions last saw."""

from __future__ import annotations

import struct
from typing import Any

import torch
from tensordict import TensorDictBase

_LENGTH = struct.Struct("<Q")


def join_state(physics: bytes, row: TensorDictBase) -> bytes:
    """The bytes of an env."""
    parts = [_LENGTH.pack(len(physics)), physics]
    parts += [_bytes_of(tensor) for _, tensor in _tensors(row)]
    return b"".join(parts)


def split_state(state: Any, like: TensorDictBase) -> tuple[bytes, TensorDictBase]:
    """What :func:`join_state` joined, with a row like this one.

    Raises:
        TypeError, ValueError: these are no bytes of such an env.
    """
    if not isinstance(state, bytes):
        raise TypeError(f"state: expected bytes, got {type(state).__name__}")
    tensors = _tensors(like)
    expected = sum(tensor.numel() * tensor.element_size() for _, tensor in tensors)
    length = _LENGTH.unpack_from(state)[0] if len(state) >= _LENGTH.size else -1
    if len(state) != _LENGTH.size + length + expected:
        raise ValueError("the saved state is of another model, or of other fields")
    place = _LENGTH.size + length
    row = like.clone()
    for key, tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        raw = torch.frombuffer(bytearray(state[place : place + size]), dtype=torch.uint8) if size else None
        if raw is not None:
            if tensor.dtype is torch.bool and int(raw.max()) > 1:
                raise ValueError("corrupt saved state: a value is out of its range")
            row.set(key, raw.view(tensor.dtype).reshape(tensor.shape).to(tensor.device))
        place += size
    return state[_LENGTH.size : _LENGTH.size + length], row


def _tensors(row: TensorDictBase) -> list[tuple[str, torch.Tensor]]:
    """Those that a reset writes: all but rewards and pictures."""
    return sorted((key, value) for key, value in row.items() if key not in ("reward", "pixels"))


def _bytes_of(tensor: torch.Tensor) -> bytes:
    raw: bytes = tensor.cpu().contiguous().numpy().tobytes()
    return raw
