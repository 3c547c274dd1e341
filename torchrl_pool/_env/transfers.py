"""Copies between the executor's memory and a device: whatever waits for one, or must not, is in this file.

On the way up, values go from pinned memory without blocking, in the stream in which they will be used. So
nothing waits on the host, and the stream has them when it needs them. torch gives pinned memory out again
only after the copies from it, also when its tensors are gone before.

On the way down the host has to wait, since simulators read what comes: once for all that one step needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchrl_pool._env.specs import Key

# Tensors up to this many bytes share one copy: there a call costs more than the moving.
SMALL = 1 << 16
_ALIGNMENT = 64


class PackedLayout:
    """Where tensors of these shapes lie in one piece of memory.

    Args:
        rows: their shapes and dtypes, by key.
    """

    def __init__(self, rows: Mapping[Key, tuple[torch.Size, torch.dtype]]) -> None:
        self.offsets: dict[Key, int] = {}
        self._rows = rows
        end = 0
        for key, (shape, dtype) in rows.items():
            self.offsets[key] = end
            end += -(-shape.numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.num_bytes = end

    def of(self, memory: torch.Tensor) -> dict[Key, torch.Tensor]:
        """The tensors in ``memory``, uint8 ``[num_bytes]``, or those in each row of ``[n, num_bytes]``."""
        typed = {dtype: memory.view(dtype) for _, dtype in self._rows.values()}
        tensors = {}
        for key, (shape, dtype) in self._rows.items():
            whole, first = typed[dtype], self.offsets[key] // dtype.itemsize
            part = whole.narrow(-1, first, shape.numel())
            # Its own version: that somebody writes to one of them is nothing to the others' gradients.
            tensors[key] = part.view(*part.shape[:-1], *shape).data
        return tensors


def up(values: Mapping[Key, torch.Tensor], device: torch.device) -> dict[Key, torch.Tensor]:
    """The values on a device, in its current stream; the host does not wait.

    Those that lie in one piece of memory, as an allocator gives small ones, travel in one copy.

    Args:
        values: CPU tensors that nobody writes to any more; pinned, or the host waits after all.
        device: where they go.
    """
    together: dict[int, list[Key]] = defaultdict(list)
    for key, value in values.items():
        together[value.untyped_storage()._cdata].append(key)
    moved: dict[Key, torch.Tensor] = {}
    for keys in together.values():
        first = values[keys[0]]
        if len(keys) == 1:
            moved[keys[0]] = first.to(device, non_blocking=True)
            continue
        memory = torch.empty(0, dtype=torch.uint8, device="cpu").set_(first.untyped_storage())
        memory = memory.to(device, non_blocking=True)
        typed = {dtype: memory.view(dtype) for dtype in {values[key].dtype for key in keys}}
        for key in keys:
            value = values[key]
            part = typed[value.dtype].as_strided(value.shape, value.stride(), value.storage_offset())
            moved[key] = part.data  # as in PackedLayout
    return {key: moved[key] for key in values}


def pinned(value: torch.Tensor) -> torch.Tensor:
    """A copy of a CPU tensor from which a device can read while the host goes on."""
    return torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=True).copy_(value)


def down(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors as contiguous CPU tensors; those that are on a device through pinned memory.

    The host waits once for each device: for what its current stream has been given until now.
    """
    on_host, devices = [], set()
    for tensor in tensors:
        if tensor.is_cpu:
            on_host.append(tensor.contiguous())
            continue
        devices.add(tensor.device)
        staged = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        on_host.append(staged.copy_(tensor.detach(), non_blocking=True))
    for device in devices:
        module = torch.get_device_module(device)
        arrived = module.Event()
        arrived.record(module.current_stream(device))
        arrived.synchronize()
    return on_host


class Uploads:
    """Copies pieces of memory to a device in a stream of its own, while other work goes on.

    Args:
        device: the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module: Any = torch.get_device_module(device)
        self._stream = self._module.Stream(device)

    def begin(self, like: torch.Tensor) -> torch.Tensor:
        """Memory on the device for a tensor that goes up piece by piece."""
        # Allocated in the stream of the copies: no earlier owner's work is left in it when they begin.
        with self._module.stream(self._stream):
            return torch.empty(like.shape, dtype=like.dtype, device=self._device)

    def send(self, to: torch.Tensor, piece: torch.Tensor) -> None:
        """Copies a contiguous piece of pinned memory, which nobody writes to any more."""
        with self._module.stream(self._stream):
            to.copy_(piece, non_blocking=True)

    def finish(self, whole: torch.Tensor) -> None:
        """Has the current stream wait for all that was sent, and use ``whole``, which :meth:`begin` made."""
        current = self._module.current_stream(self._device)
        current.wait_stream(self._stream)
        # Its memory goes back to the stream of the copies, and not before the current one has read it.
        whole.record_stream(current)
