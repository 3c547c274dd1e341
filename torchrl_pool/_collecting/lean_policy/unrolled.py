"""A network as the calls that it makes, without what torch does around the call of each module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torchrl.modules import MLP

from torchrl_pool._collecting.lean_policy.parts import check_calls
from torchrl_pool._collecting.lean_policy.values import NotApart


class Unrolled:
    """Makes the calls one after the other, each with what the last one has returned.

    Args:
        calls: at least one.
    """

    def __init__(self, calls: list[Callable[..., Any]]) -> None:
        self._first, *self._others = calls

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        result = self._first(*inputs, **kwargs)
        for call in self._others:
            result = call(result)
        return result


def unrolled(network: Any, num_inputs: int) -> Callable[..., Any]:
    """What gives a network's results from ``num_inputs`` tensors; hooks are those of this moment."""
    return Unrolled(_calls(network, num_inputs))


def _calls(network: Any, num_inputs: int) -> list[Callable[..., Any]]:
    if not isinstance(network, nn.Module):
        return [network]
    try:
        check_calls(network)
    except NotApart:
        return [network]
    forward = type(network).forward
    if forward is nn.Sequential.forward or (_only_calls(network) and num_inputs == 1):
        layers = network._modules.values()  # with one that comes twice, which children() names but once
        return [call for inner in layers for call in _calls(inner, 1)] or [network]
    return [_Linear(network)] if type(network) is nn.Linear and forward is _LINEAR else [network.forward]


_LINEAR = nn.Linear.forward  # which somebody may change


class _Linear:
    """``nn.Linear``, whose weights are found where it keeps them: the search is a third of its time."""

    def __init__(self, module: nn.Module) -> None:
        self._attributes, self._forward = vars(module), module.forward

    def __call__(self, values: Tensor) -> Tensor:
        parameters = self._attributes["_parameters"]
        try:
            weight, bias = parameters["weight"], parameters["bias"]
        except KeyError:  # somebody has put tensors in their place that are no parameters
            return self._forward(values)  # type: ignore[no-any-return]
        return functional.linear(values, weight, bias)


def _only_calls(network: nn.Module) -> bool:
    return type(network).forward is MLP.forward and not network._reshape_out
