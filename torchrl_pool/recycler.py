"""Large CPU tensors in memory that was used before, once nobody holds the tensors that were there."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence

import numpy as np
import torch

_ALIGNMENT = 64  # as torch's own


class Recycler:
    """Makes tensors, by name, and at most one per name waits to be used again.

    The first write to each page of fresh memory costs about as much as the writing itself. A tensor's memory
    comes back when the last reference to its storage is gone: any view, array or tensordict with it keeps it.
    """

    def __init__(self) -> None:
        self._free: dict[Hashable, np.ndarray] = {}

    def empty(self, name: Hashable, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with undefined contents that nobody else has."""
        try:
            numpy_dtype = torch.empty(0, dtype=dtype).numpy().dtype
        except TypeError:  # bfloat16 and its like, which policies rarely write
            return torch.empty(*shape, dtype=dtype)
        size = int(np.prod(shape, dtype=np.int64)) * numpy_dtype.itemsize
        memory = self._free.pop(name, None)
        if memory is None or memory.nbytes != size + _ALIGNMENT:
            memory = np.empty(size + _ALIGNMENT, dtype=np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        array = memory[start : start + size].view(numpy_dtype).reshape(shape)
        # The storage holds this very array, and lets go of it when it is destroyed.
        weakref.finalize(array, self._free.__setitem__, name, memory).atexit = False
        return torch.from_numpy(array)
