"""The entries that a policy reads and writes, as its parts hand them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool._env.specs import Key

Values: TypeAlias = "dict[Key, Any]"


class Step(Protocol):
    """One part's call: from entries that are there to entries that it adds."""

    @property
    def in_keys(self) -> Sequence[Key]: ...
    @property
    def out_keys(self) -> Sequence[Key]: ...
    def __call__(self, values: Values) -> None: ...


class NotApart(Exception):
    """What says why a part of a policy is called as it is."""


def read_first(steps: Iterable[Step]) -> list[Key]:
    """The entries that steps read before one of them has written them."""
    needed: dict[Key, None] = {}
    written: set[Key] = set()
    for step in steps:
        needed.update(dict.fromkeys(key for key in step.in_keys if key not in written))
        written.update(step.out_keys)
    return list(needed)


def read(tensordict: TensorDictBase, keys: Sequence[Key]) -> list[Any]:
    """These entries, None where one is missing, as modules get them."""
    return [tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None) for key in keys]


def write(tensordict: TensorDictBase, keys: Sequence[Key], values: Sequence[Any]) -> None:
    """Sets entries as ``tensordict.set`` does; tensors that need no conversion take a quicker way."""
    size, device = tensordict.batch_size, tensordict.device
    for key, value in zip(keys, values, strict=True):
        if (
            type(value) is not torch.Tensor
            or value.shape[: len(size)] != size
            or (device is not None and value.device != device)
        ):
            tensordict.set(key, value)
        elif type(key) is str:
            tensordict._set_str(key, value, validated=True, inplace=False, non_blocking=False)
        elif len(key) == 2:
            below = tensordict._get_str(key[0], None)
            if below is None:
                below = new_tensordict({}, size, device)
                tensordict._set_str(key[0], below, validated=True, inplace=False, non_blocking=False)
            below._set_str(key[1], value, validated=True, inplace=False, non_blocking=False)
        else:
            tensordict.set(key, value)


def new_tensordict(source: dict[str, Any], size: torch.Size, device: torch.device | None) -> TensorDict:
    """A tensordict of entries that need no conversion."""
    return TensorDict._new_unsafe(source=source, batch_size=size, device=device)
