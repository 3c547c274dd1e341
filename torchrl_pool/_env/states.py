"""States that travel in tensordicts: what some of TorchRL's envs read besides their actions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool._env.specs import Key, key_named
from torchrl_pool._env.tensors import entry_of
from torchrl_pool._workers.entries import Entry


class StateEntries:
    """The entries of a ``state_spec``, as the executor takes them to the envs: one column of bytes.

    Of each env they are, one after the other, whether each entry was given and the bytes of each. An entry
    that is missing in a tensordict is the one that the env had last, as in ``ParallelEnv``.

    Args:
        entries: those of one env.
        num_envs: of how many.
    """

    def __init__(self, entries: Sequence[Entry], num_envs: int) -> None:
        self._num_envs = num_envs
        self._layout: list[tuple[Key, torch.dtype, tuple[int, ...]]] = [
            (key_named(entry.name), getattr(torch, entry.dtype), entry.shape) for entry in entries
        ]
        self.keys = [key for key, _, _ in self._layout]

        sizes = [math.prod(shape) * dtype.itemsize for _, dtype, shape in self._layout]
        self.row_bytes = len(sizes) + sum(sizes)

    def packed(self, source: Mapping[Any, Any], num_rows: int | None = None) -> torch.Tensor:
        """The column for entries with a row for each env, or for so many: uint8 ``[rows, bytes]``.

        Raises:
            TypeError: an entry is no tensor, or its dtype does not become that of the spec.
            ValueError: an entry has another shape than its spec.
        """
        rows = self._num_envs if num_rows is None else num_rows
        columns = []
        given = []
        for key, dtype, shape in self._layout:
            value = entry_of(source, key)
            given.append(value is not None)
            if value is None:
                value = torch.zeros((rows, *shape), dtype=dtype, device="cpu")
            if not isinstance(value, torch.Tensor) or not torch.can_cast(value.dtype, dtype):
                kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
                raise TypeError(f"{key!r}: expected a tensor of dtype {dtype}, got {kind}")
            if value.shape != (rows, *shape):
                raise ValueError(f"{key!r}: expected shape {[rows, *shape]}, got {list(value.shape)}")
            value = value.detach().to("cpu", dtype).contiguous()
            columns.append(value.reshape(rows, math.prod(shape)).view(torch.uint8))
        flags = torch.tensor([given], dtype=torch.uint8, device="cpu").expand(rows, -1)
        return torch.cat([flags, *columns], 1)

    def are_in(self, tensordict: TensorDictBase) -> bool:
        """Whether it has one of them."""
        return any(tensordict.get(key, None) is not None for key in self.keys)
