"""What is known of a policy, until somebody changes it."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, TypeVar

import torch
from tensordict import TensorDictBase
from tensordict.nn.utils import skip_existing
from torch import nn
from torchrl.data import TensorSpec
from torchrl.data.tensor_specs import Box

from torchrl_pool._collecting.lean_policy.exploration import exploration_type_here

T = TypeVar("T")


class UntilChanged(Generic[T]):
    """A function of a policy, called again only where the policy has changed.

    To compare what its modules hold takes a tenth of the time that it takes to look at them. What a policy
    holds that is no module nobody can see: there the function is called each time.

    Args:
        function: of the policy, its modules' attributes, their hooks, the exploration type, and the dtypes
            and devices of parameters and buffers; but not of their values.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._known: tuple[_Snapshot, T] | None = None

    def __call__(self, policy: Any) -> T:
        if self._known is not None and self._known[0].still_shows(policy):
            return self._known[1]
        snapshot, result = _Snapshot(policy), self._function(policy)
        self._known = snapshot, result
        return result


class _Snapshot:
    """All that a policy's modules hold."""

    def __init__(self, policy: Any) -> None:
        self._policy, self._modes = policy, _modes()
        self._modules = list(policy.modules()) if isinstance(policy, nn.Module) else []
        self._forwards = self._find_forwards()
        # Whether something may change that nobody can see.
        self._opaque = not isinstance(policy, nn.Module)
        self._dicts: list[tuple[dict[Any, Any], list[Any]]] = []  # and their values
        self._names: list[tuple[dict[Any, Any], list[Any]]] = []  # of some of them, which are no attributes
        self._sequences: list[tuple[Collection[Any], list[Any]]] = []  # and what is in them
        hooks = nn.modules.module
        self._empty: list[Any] = [hooks._global_forward_hooks, hooks._global_forward_pre_hooks]
        self._tensors: list[tuple[torch.Tensor, bool]] = []  # and whether their values count
        for module in self._modules:
            for name, value in self._note(module.__dict__).items():
                if isinstance(value, TensorSpec):
                    self._note_spec(value)
                elif type(value) not in _CONTAINERS:
                    self._opaque |= isinstance(value, TensorDictBase)
                elif value:
                    self._note_container(value, counts=name not in ("_parameters", "_buffers"))
                else:
                    self._empty.append(value)
        self._kinds = list(self._find_kinds())

    def still_shows(self, policy: Any) -> bool:
        """Whether the policy is this one, and as it was."""
        if policy is not self._policy or self._opaque or self._modes != _modes() or any(self._empty):
            return False
        return (
            all(_are_same(held.values(), before) for held, before in self._dicts)
            and all(_are_same(several, before) for several, before in self._sequences)
            and all(list(held) == names for held, names in self._names)
            and self._find_forwards() == self._forwards
            and list(self._find_kinds()) == self._kinds
        )

    def _note(self, attributes: dict[Any, Any]) -> dict[Any, Any]:
        self._dicts.append((attributes, list(attributes.values())))
        return attributes

    def _note_container(self, container: Any, *, counts: bool) -> None:
        if isinstance(container, dict):
            self._note(container)
            self._names.append((container, list(container)))
            held = list(container.values())
        else:
            held = list(container)
            self._sequences.append((container, held))
        for one in held:
            if isinstance(one, torch.Tensor):
                self._note_tensor(one, counts=counts)

    def _note_spec(self, part: Any) -> None:
        if isinstance(part, torch.Tensor):
            self._note_tensor(part, counts=True)
        elif isinstance(part, (dict, TensorSpec, Box)):
            for inner in self._note(part if isinstance(part, dict) else vars(part)).values():
                self._note_spec(inner)

    def _note_tensor(self, tensor: torch.Tensor, *, counts: bool) -> None:
        self._opaque |= counts and tensor.is_inference()  # which counts no changes
        self._tensors.append((tensor, counts))

    def _find_forwards(self) -> list[Any]:
        return [type(module).forward for module in self._modules]

    def _find_kinds(self) -> Iterator[Any]:
        counted = not self._opaque
        for one, counts in self._tensors:
            yield one.dtype, one.device, one._version if counts and counted else 0


def _are_same(objects: Collection[Any], before: list[Any]) -> bool:
    return len(objects) == len(before) and all(map(operator.is_, objects, before))


def _modes() -> tuple[Any, ...]:
    autocast = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
    return exploration_type_here(), skip_existing(), autocast


_CONTAINERS = frozenset([dict, OrderedDict, list, tuple, set])
