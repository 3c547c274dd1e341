"""Large CPU tensors in memory that was used before, once nobody holds the tensors that were there."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence

import torch


class MemoryCache:
    """Makes tensors, by name, and at most one per name waits to be used again.

    The first write to each page of fresh memory costs about as much as the writing itself. A tensor's memory
    comes back when the tensor is gone, and is used again unless something else holds it: a view, an array,
    another process.
    """

    def __init__(self) -> None:
        self._let_go: dict[Hashable, torch.UntypedStorage] = {}

    def empty(self, name: Hashable, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with undefined contents that nobody else has, as torch.empty makes them."""
        shape = torch.Size(shape)
        storage = self._let_go.pop(name, None)
        if storage is not None and _is_free(storage) and storage.nbytes() == shape.numel() * dtype.itemsize:
            tensor = torch.empty(0, dtype=dtype, device="cpu")
            tensor.set_(storage, 0, shape)  # type: ignore[call-overload]
        else:
            tensor = torch.empty(shape, dtype=dtype, device="cpu")
        # Views and graphs keep the tensor itself; what shares its storage without it shows in the count.
        storage = tensor.untyped_storage()
        weakref.finalize(tensor, self._let_go.__setitem__, name, storage).atexit = False
        return tensor


def _is_free(storage: torch.UntypedStorage) -> bool:
    """Whether nothing holds a storage but its caller. Shared memory may be mapped elsewhere."""
    return torch._C._storage_Use_Count(storage._cdata) == 1 and not storage.is_shared()
