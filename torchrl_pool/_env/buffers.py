"""The tensors that a pool writes: allocated here, written in C++, and then the consumer's for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, TypeAlias

import torch
import torch.utils.dlpack
from tensordict import TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.specs import Key, key_of, torch_dtype
from torchrl_pool._env.transfers import SMALL, PackedLayout

# One set of output tensors, by key and in the order of the pool's columns, and their addresses. A plain
# tuple, since one is made at every step.
Batch: TypeAlias = tuple[dict[Key, torch.Tensor], list[int]]


# What torch.utils.dlpack.from_dlpack calls, after it has looked at what it got.
_from_dlpack: Callable[[Any], torch.Tensor] = getattr(
    torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack
)


class Prototypes(dict[Key, torch.Tensor]):
    """What fresh tensors are like, by key, and where the executor looks for their addresses.

    Args:
        tensors: one of each, which is never written.
        positions: the place of each one's address among those of all columns. Default: their own order.
        addresses: of all columns; where tensors have their place, any number.
        keeps: whether their memory is kept for the next ones once nobody holds it any more.
    """

    def __init__(
        self,
        tensors: Mapping[Key, torch.Tensor],
        positions: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        keeps: bool = True,
    ) -> None:
        super().__init__(tensors)
        self._keeps = keeps
        self.positions = range(len(self)) if positions is None else positions
        self.addresses = [0] * len(self) if addresses is None else addresses

    @cached_property
    def memory(self) -> _core.TensorMemory:
        """Where fresh ones come from, in half the time of torch.empty_like."""
        return _core.TensorMemory(
            tensor_type=torch.Tensor,
            from_dlpack=_from_dlpack,
            keys=list(self),
            tensors=[(list(one.shape), str(one.dtype).removeprefix("torch.")) for one in self.values()],
            positions=self.positions,
            addresses=self.addresses,
            keeps=self._keeps,
        )

    def first_rows(self, num_rows: int) -> Prototypes:
        """For so many rows: one of many numbers of them, so that nothing is kept."""
        rows = {key: one[:num_rows] for key, one in self.items()}
        return Prototypes(rows, self.positions, self.addresses, keeps=False)

    def addresses_of(self, tensors: Iterable[torch.Tensor]) -> list[int]:
        """The addresses of all columns, for tensors like these."""
        addresses = list(self.addresses)
        for position, tensor in zip(self.positions, tensors, strict=True):
            addresses[position] = tensor.data_ptr()
        return addresses


class BatchAllocator:
    """Makes fresh CPU tensors ``[num_envs, *shape]`` for each call of the executor.

    Args:
        outputs: what the executor writes.
        num_envs: of how many envs.
        pin_memory: whether the tensors are pinned.
        together: whether small ones share their memory, which is then to travel to a device in one copy.
    """

    def __init__(
        self, outputs: Sequence[_core.Spec], num_envs: int, pin_memory: bool, together: bool = False
    ) -> None:
        self.step_prototypes = Prototypes(
            {
                key_of(s): torch.empty((num_envs, *s.shape), dtype=torch_dtype(s), device="cpu")
                for s in outputs
            }
        )
        self._flags = [key_of(s) for s in outputs if s.role == "done"]
        self.reward_keys = [key_of(s) for s in outputs if s.role == "reward"]
        in_root = [i for i, spec in enumerate(outputs) if spec.role != "reward"]
        keys = list(self.step_prototypes)
        self._root = Prototypes(
            {keys[i]: self.step_prototypes[keys[i]] for i in in_root}, in_root, [0] * len(outputs)
        )
        self._together, self._pin_memory = together, pin_memory
        # Views of the prototypes, by number of rows: the few numbers that a consumer receives at a time.
        self._rows_of = lru_cache(maxsize=64)(self._first_rows)
        # Made already, and seen by nobody. Taken with pop, which no other thread can interrupt.
        self._spares: dict[str, Batch] = {}
        # What the last call gave to the consumer, as a courtesy to rows that the next one leaves out: never
        # written, and read only while nobody has written to it (a fresh tensor's version is 0).
        self.latest: dict[Key, torch.Tensor] = {}
        self.nowhere = [0] * len(outputs)  # addresses for a reset whose outputs nobody wants

    def for_step(self) -> Batch:
        """Tensors with undefined contents, for a call that writes every row of all of them."""
        return self._spares.pop("step", None) or self._allocate(self.step_prototypes)

    def for_root(self) -> Batch:
        """The same without rewards: what a reset writes."""
        return self._spares.pop("root", None) or self._allocate(self._root)

    @property
    def root_memory(self) -> _core.TensorMemory | None:
        """Where the executor may take a root's tensors from; None: they are allocated otherwise."""
        return None if self._together or self._pin_memory else self._root.memory

    def for_rows(self, num_rows: int, rewards: bool = True, first: int = 0) -> Batch:
        """Tensors ``[num_rows, *shape]``, with or without the rewards, for envs from the ``first`` on."""
        return self._allocate(self._rows_of(num_rows, rewards))

    def _first_rows(self, num_rows: int, rewards: bool) -> Prototypes:
        return (self.step_prototypes if rewards else self._root).first_rows(num_rows)

    def _allocate(self, prototypes: Prototypes) -> Batch:
        if self._together or self._pin_memory:
            tensors = self._for_a_device(prototypes)
            return tensors, prototypes.addresses_of(tensors.values())
        return prototypes.memory.make()

    def _for_a_device(self, prototypes: Prototypes) -> dict[Key, torch.Tensor]:
        empty_like = partial(torch.empty_like, pin_memory=self._pin_memory)
        if not self._together:
            return {key: empty_like(prototype) for key, prototype in prototypes.items()}
        small = {
            key: (prototype.shape, prototype.dtype)
            for key, prototype in prototypes.items()
            if prototype.numel() * prototype.element_size() <= SMALL
        }
        packed = PackedLayout(small)
        memory = torch.empty(packed.num_bytes, dtype=torch.uint8, device="cpu", pin_memory=self._pin_memory)
        tensors = packed.of(memory)
        return {
            key: tensors[key] if key in small else empty_like(prototype)
            for key, prototype in prototypes.items()
        }

    def prepare_step(self) -> None:
        """Makes what for_step gives next, at a time that costs nothing."""
        self._keep("step", self._allocate(self.step_prototypes))

    def let_go(self) -> None:
        """Forgets what calls have left here, and the memory that is kept for the next ones."""
        self.latest = {}
        self._spares.clear()
        for prototypes in (self.step_prototypes, self._root):
            vars(prototypes).pop("memory", None)
        self._rows_of.cache_clear()

    def give_back_root(self, root: Batch) -> None:
        """Takes a root batch that turned out not to be needed and that nobody else has seen."""
        self._keep("root", root)

    def _keep(self, name: str, batch: Batch) -> None:
        if not torch.is_inference_mode_enabled():  # its tensors could not be saved for backward later
            self._spares[name] = batch

    def keep_from(self, tensors: dict[Key, torch.Tensor], tensordict: TensorDictBase) -> None:
        """Fills tensors, for a call that writes only some rows.

        The other rows get what the tensordict holds under the same keys, shape and dtype permitting, else the
        envs' latest observations. Rewards and flags that nobody knows are zero there.
        """
        for key, tensor in tensors.items():
            value = tensordict.get(key, None)
            if value is None and key not in self._flags and key not in self.reward_keys:
                value = self.latest.get(key)
                if value is not None and (value.is_inference() or value._version > 0):
                    value = None
            fresh = tensor.data  # writing through it does not raise the version
            if value is not None and value.shape == tensor.shape and value.dtype is tensor.dtype:
                fresh.copy_(value)
            else:
                fresh.zero_()
