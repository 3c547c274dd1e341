"""Entries of tensordicts as the executor reads and writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from torchrl_pool import _core
from torchrl_pool._env.specs import Key, NestedSizes

_NOT_NESTED: NestedSizes = {}
_Entries = type(TensorDict._new_unsafe()._tensordict)  # a dict of their own kind


class PlainEntries:
    """A quick look at entries of a tensordict that are just as the executor reads them, which nearly all are.

    Args:
        wanted: the key, dtype and shape of each.
        required: whether it has to be there. Default: all.
    """

    def __init__(
        self, wanted: Sequence[tuple[Key, torch.dtype, torch.Size]], required: Sequence[bool] | None = None
    ) -> None:
        self.core = _core.PlainTensors(
            tensor_type=torch.Tensor,
            tensordict_type=TensorDict,
            keys=[[key] if isinstance(key, str) else key for key, _, _ in wanted],
            tensors=[(list(shape), str(dtype).removeprefix("torch.")) for _, dtype, shape in wanted],
            required=[True] * len(wanted) if required is None else required,
        )


def entries_of(tensordict: TensorDictBase) -> Mapping[Any, Any]:
    """The entries by name."""
    return tensordict._tensordict if type(tensordict) is TensorDict else dict(tensordict.items())


def entry_of(entries: Mapping[Any, Any], key: Key) -> Any:
    """An entry by its whole key, or by the names on the way to it. None: it is not there."""
    if key in entries or isinstance(key, str):
        return entries.get(key)
    outer = entries.get(key[0])
    return outer.get(key[1:], None) if isinstance(outer, TensorDictBase) else None


def leaf_keys(tensordict: TensorDictBase) -> Iterator[Key]:
    """The keys of all leaves, as ``keys(True, True)`` gives them, in a tenth of the time."""
    items = tensordict._tensordict.items() if type(tensordict) is TensorDict else tensordict.items()
    for name, value in items:
        if type(value) is torch.Tensor or not is_tensor_collection(value) or is_non_tensor(value):
            yield name
            continue
        for below in leaf_keys(value):
            yield (name, below) if isinstance(below, str) else (name, *below)


def as_choices(key: Key, action: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same whole numbers: modules differ in what they make of one-hot vectors and indices."""
    kinds = (dtype, action.dtype)
    if not any(kind.is_floating_point or kind.is_complex for kind in kinds) and not action.is_meta:
        converted = action.to(dtype)
        if torch.equal(converted.to(action.dtype), action) and torch.equal(converted < 0, action < 0):
            return converted
    raise TypeError(f"{key!r}: expected dtype {dtype}, got {action.dtype}")


def as_it_lies(value: torch.Tensor) -> torch.Tensor:
    """The same, whose memory holds just its numbers one after the other: not the opposite of them, say."""
    if value.is_neg() or value.is_conj():
        value = value.resolve_conj().resolve_neg()
    return value.contiguous()


def check_memory(key: Key, value: torch.Tensor) -> None:
    """Raises ValueError: its numbers are nowhere, as a fake tensor's, or as where the storage was freed."""
    try:
        has_memory = value.data_ptr() != 0 or value.numel() == 0
    except RuntimeError:  # as those of vmap and grad say
        has_memory = False
    if not has_memory:
        raise ValueError(
            f"{key!r}: expected a tensor with memory of its own, got a fake, freed or functorch tensor"
        )


def unsafe_tensordict(
    values: dict[Key, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    names: Sequence[str | None] | None = None,
    *,
    nested: bool,
    nested_sizes: NestedSizes = _NOT_NESTED,
) -> TensorDict:
    """A tensordict of entries that are known to fit, some of which may lie in tensordicts of their own."""
    # What TensorDict._new_unsafe does, which would convert the device and copy the entries one by one.
    tensordict: TensorDict = TensorDict.__new__(TensorDict)
    tensordict._device = device
    tensordict._batch_size = batch_size
    tensordict._td_dim_names = names
    if not nested:
        tensordict._tensordict = _Entries(values)
        return tensordict
    tensordict._tensordict = _Entries()
    own: dict[Key, TensorDict] = {}  # by key; those of the values are somebody else's
    for key, value in values.items():
        into, path = tensordict, ((key,) if isinstance(key, str) else key)
        for depth in range(1, len(path)):
            below = own.get(path[:depth])
            if below is None:
                found = into._tensordict.get(path[depth - 1])
                above = into._batch_size[len(batch_size) :]
                more = nested_sizes.get(path[path[0] == "next" : depth], above)
                below_names = names and [*names, *[None] * len(more)]
                below = unsafe_tensordict({}, batch_size + more, device, below_names, nested=False)
                if found is not None:
                    below._tensordict.update(found.items())
                own[path[:depth]] = into._tensordict[path[depth - 1]] = below
            into = below
        into._tensordict[path[-1]] = value
    return tensordict
