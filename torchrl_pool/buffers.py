"""The tensors that a pool writes: allocated here, written in C++, and then the consumer's for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from torchrl_pool import _core
from torchrl_pool.specs import Key, key_of, torch_dtype


class Batch(NamedTuple):
    """One set of output tensors, in the order of the pool's columns."""

    tensors: list[torch.Tensor]
    addresses: tuple[int, ...]


class BatchAllocator:
    """Makes fresh CPU tensors ``[num_envs, *shape]``, pinned if asked for, for each call of the executor."""

    def __init__(self, outputs: Sequence[_core.Spec], num_envs: int, pin_memory: bool) -> None:
        self.keys: tuple[Key, ...] = tuple(key_of(spec) for spec in outputs)
        self.nowhere = (0,) * len(self.keys)  # addresses for a call whose outputs nobody wants
        self._pin_memory = pin_memory
        # Never written: empty_like is the cheapest way to a fresh tensor.
        self.templates = [torch.empty((num_envs, *s.shape), dtype=torch_dtype(s)) for s in outputs]

    def empty(self) -> Batch:
        """Tensors with undefined contents, for calls that write every row."""
        if self._pin_memory:
            tensors = [torch.empty_like(t, pin_memory=True) for t in self.templates]
        else:
            tensors = [torch.empty_like(t) for t in self.templates]
        return Batch(tensors, tuple([t.data_ptr() for t in tensors]))

    def copies(self, sources: Sequence[torch.Tensor | None]) -> Batch:
        """Tensors that hold copies of these, and zeros for those that are missing."""
        batch = self.empty()
        for tensor, source in zip(batch.tensors, sources, strict=True):
            if source is None:
                tensor.zero_()
            else:
                tensor.copy_(source)
        return batch
