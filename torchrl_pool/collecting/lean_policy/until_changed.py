"""What is known of a policy, until somebody changes it."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Generic, TypeVar

import torch
from tensordict import TensorDictBase
from tensordict.nn.utils import skip_existing
from torch import nn

from torchrl_pool.collecting.lean_policy.exploration import exploration_type_here

T = TypeVar("T")


class UntilChanged(Generic[T]):
    """A function of a policy, called again only where the policy has changed.

    To compare what its modules hold takes a tenth of the time that it takes to look at them.

    Args:
        function: of the policy, its modules' attributes, their hooks, the exploration type, and the dtypes
            and devices of parameters and buffers; but not of their values.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._known: tuple[list[Any], list[Any], T] | None = None

    def __call__(self, policy: Any) -> T:
        objects, values = _state_of(policy)
        if self._known is not None:
            objects_before, values_before, result = self._known
            same = len(objects) == len(objects_before) and all(map(operator.is_, objects, objects_before))
            if same and values == values_before:
                return result
        result = self._function(policy)
        self._known = objects, values, result
        return result


def _state_of(policy: Any) -> tuple[list[Any], list[Any]]:
    """What must be the same objects, and what must be equal, for a policy to be what it was."""
    shared = nn.modules.module
    objects: list[Any] = [policy, exploration_type_here(), skip_existing()]
    for hooks in (shared._global_forward_hooks, shared._global_forward_pre_hooks):
        objects += hooks.values()
    values: list[Any] = []
    modules = [policy] if isinstance(policy, nn.Module) else []
    visited = set()
    while modules:
        module = modules.pop()
        if module in visited:
            continue
        visited.add(module)
        objects += module, type(module), type(module).forward
        objects += module.__dict__.values()
        for name, value in module.__dict__.items():
            kind = type(value)
            if kind in _CONTAINERS:
                if value:  # most are empty: hooks
                    held = list(value.values() if isinstance(value, dict) else value)
                    objects += held
                    values += _kinds_of(held, with_versions=name not in ("_parameters", "_buffers"))
            elif kind not in _PLAIN and isinstance(value, TensorDictBase):
                objects.append(object())  # nobody tells whether it holds the same: it counts as changed
        modules += [below for below in module._modules.values() if below is not None]
    return objects, values


def _kinds_of(held: list[Any], *, with_versions: bool) -> Iterator[Any]:
    for one in held:
        if isinstance(one, torch.Tensor):
            yield one.dtype, one.device, one._version if with_versions and not one.is_inference() else None


_CONTAINERS = frozenset([dict, OrderedDict, list, tuple, set])
_PLAIN = frozenset([bool, int, float, str, type(None), type, FunctionType])
