"""Between tensordicts and the executor's memory: actions on their way in, results on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool.env.buffers import BatchAllocator
from torchrl_pool.env.next_root import NextRoot
from torchrl_pool.env.specs import Key


class TensorMethods(EnvBase):
    """What :class:`~torchrl_pool.PoolEnv` does with tensors, wherever they come from and go."""

    num_envs: int
    num_threads: int
    _outputs: Sequence[_core.Spec]
    _action_layout: Sequence[tuple[Key, torch.dtype, torch.Size]]
    _nested: bool  # whether an output lies in a tensordict of its own
    _next_root: NextRoot
    _pin_memory_wish: bool | None

    def _use_device(self) -> None:
        """Everything that follows from where the outputs go."""
        cuda = self.device is not None and self.device.type == "cuda"
        wish = self._pin_memory_wish
        self._pin_memory = cuda if wish is None else wish
        if self._pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True needs CUDA, which torch does not find here")
        self._on_cpu = self.device is None or self.device.type == "cpu"
        self._overlaps = self._on_cpu and self.num_threads > 1
        self._allocator = BatchAllocator(self._outputs, self.num_envs, self._pin_memory)

    def _check_actions(
        self, tensordict: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The actions as contiguous CPU tensors, and their addresses. Values are checked in C++."""
        actions, addresses = [], []
        for key, dtype, shape in self._action_layout:
            action = tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None)
            if not isinstance(action, torch.Tensor):
                if action is None:
                    raise KeyError(
                        f"expected an entry {key!r} in the tensordict, got {list(tensordict.keys())}"
                    )
                raise TypeError(f"{key!r}: expected a torch.Tensor, got {type(action).__name__}")
            if num_rows is not None:
                shape = torch.Size((num_rows, *shape[1:]))
            if action.shape != shape:
                raise ValueError(f"{key!r}: expected shape {list(shape)}, got {list(action.shape)}")
            if action.dtype is not dtype:
                raise TypeError(f"{key!r}: expected dtype {dtype}, got {action.dtype}")
            if action.layout is not torch.strided:
                raise TypeError(f"{key!r}: expected a dense tensor, got one of layout {action.layout}")
            if action.is_neg():  # its memory holds the opposite
                action = action.resolve_neg()
            if not action.is_cpu:
                if self._on_cpu:
                    raise ValueError(f"{key!r}: expected a tensor on cpu, got one on {action.device}")
                action = action.cpu()
            action = action.contiguous()
            actions.append(action)
            addresses.append(action.data_ptr())
        return actions, addresses

    def _on_device(self, values: dict[Key, torch.Tensor]) -> dict[Key, torch.Tensor]:
        return {key: value.to(self.device, non_blocking=True) for key, value in values.items()}

    def _tensordict(self, tensors: dict[Key, torch.Tensor]) -> TensorDict:
        return self._unsafe(tensors if self._on_cpu else self._on_device(tensors))

    def _unsafe(
        self, values: dict[Key, Any], names: list[str] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """A tensordict of entries that are known to fit: a tenth of the checked constructor's cost."""
        batch_size = self._batch_size if num_rows is None else torch.Size([num_rows])
        if self._nested:
            return TensorDict(values, batch_size=batch_size, device=self.device, names=names)
        tensordict = TensorDict._new_unsafe(None, batch_size, names=names)
        # Assigned rather than passed: _new_unsafe would convert the device and copy the entries one by one.
        tensordict._device = self._device
        tensordict._tensordict.update(values)
        return tensordict
