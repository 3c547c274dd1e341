"""The networks below a module, as they are called in a policy that is taken apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from torch import Tensor, nn

from torchrl_pool.collecting.lean_policy import NetworkCall, parts_of
from torchrl_pool.env.specs import Key

Tensors: TypeAlias = "dict[Key, Tensor]"


def networks_of(module: Any) -> list[NetworkCall]:
    """The networks below a module in the order of their calls.

    Raises:
        TypeError: a module that is not made of :class:`~tensordict.nn.TensorDictModule` around networks.
    """
    calls: list[NetworkCall] = []
    for part in parts_of(module):
        if not isinstance(part.step, NetworkCall) or not isinstance(part.step.network, nn.Module):
            why = f" ({part.why_not})" if part.why_not else ""
            raise TypeError(f"expected TensorDictModules around networks, got {part.name}{why}")
        calls.append(part.step)
    return calls


def call(networks: Iterable[NetworkCall], tensors: Tensors) -> None:
    """Calls networks one after the other, each with what is in the dict, which gets what they return."""
    for network in networks:
        network(tensors)
