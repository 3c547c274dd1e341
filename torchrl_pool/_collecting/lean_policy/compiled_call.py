"""A policy's compiled function, whose guards are checked at a batch's first calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torchrl._utils import compile_with_warmup

_Graph = Callable[..., "Sequence[Any]"]

# Their code keeps no results aside, as a forward might that sets attributes: a graph is all there is to it.
_KNOWN = ("torch.", "torchrl.", "tensordict.", "torchrl_pool.")


class _Direct(NamedTuple):
    """What a call of the compiled function has come down to: one call of a graph."""

    graph: _Graph
    arguments: list[Any]  # with any number in the places of the inputs
    places: list[tuple[int, int]]  # of an argument and of an input that it is
    results: list[int]  # among the graph's
    layouts: list[Any]  # of the inputs

    def takes_the_same(self, other: _Direct) -> bool:
        """Whether the other one calls the same graph with the same parameters."""
        replaced = {place for place, _ in self.places}
        return (
            self.graph is other.graph
            and self.places == other.places
            and self.results == other.results
            and self.layouts == other.layouts
            and all(
                one is two
                for i, (one, two) in enumerate(zip(self.arguments, other.arguments, strict=True))
                if i not in replaced
            )
        )


class CompiledCall:
    """``torch.compile`` of a function of tensors, without its guards after a batch's first two calls.

    Guards ask at each call whether parameters, modes and attributes are what they were: two thirds of the
    time of a small policy. Where two calls have come down to the same graph with the same parameters, the
    others of the batch call that graph. They are guarded as ever where compiled code does more than that, on
    other devices than a CPU, and with arguments of ``torch.compile`` of the caller's own.

    Args:
        function: from tensors to a tuple of tensors.
        called: the modules, functions and classes that it calls.
        **kwargs: what ``compile_policy`` takes.
    """

    def __init__(self, function: Callable[..., Any], called: Sequence[Any], **kwargs: Any) -> None:
        self._calls: list[tuple[_Graph, tuple[Any, ...], Sequence[Any]]] = []  # of graphs, in a guarded call
        self._direct: _Direct | None = None
        self._last: _Direct | None = None
        known = all(_where_defined(one).startswith(_KNOWN) for one in called)
        self._may_be_direct = known and kwargs.keys() <= {"warmup"}
        if self._may_be_direct:
            kwargs["backend"] = self._backend
        self._guarded = compile_with_warmup(function, **kwargs)

    def begin_batch(self) -> None:
        """Parameters may have been replaced, attributes set: guards are checked again."""
        self._direct = self._last = None

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        direct = self._direct
        if direct is not None and [_layout(one) for one in inputs] == direct.layouts:
            arguments = direct.arguments
            for place, number in direct.places:
                arguments[place] = inputs[number]
            found = direct.graph(*arguments)
            return [found[number] for number in direct.results]
        self._calls.clear()
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        results = self._guarded(*inputs)
        if self._may_be_direct and direct is None:
            now = self._come_down(inputs, results)
            if now is not None and self._last is not None and now.takes_the_same(self._last):
                self._direct = now
            self._last = now
        self._calls.clear()
        # On a GPU the next call may write into the same memory.
        return [value.clone() if value.is_cuda else value for value in results]

    def _backend(self, graph: torch.fx.GraphModule, example_inputs: list[Any]) -> _Graph:
        compiled: _Graph = torch._dynamo.lookup_backend("inductor")(graph, example_inputs)

        def call(*arguments: Any) -> Sequence[Any]:
            results = compiled(*arguments)
            self._calls.append((compiled, arguments, results))
            return results

        return call

    def _come_down(self, inputs: Sequence[Any], results: Sequence[Any]) -> _Direct | None:
        """What a guarded call has done, if that was one call of a graph whose results are all there is."""
        if len(self._calls) != 1 or not all(type(one) is Tensor and one.is_cpu for one in inputs):
            return None
        graph, arguments, found = self._calls[0]
        numbers = {id(one): number for number, one in enumerate(inputs)}
        places = [(place, numbers[id(one)]) for place, one in enumerate(arguments) if id(one) in numbers]
        made = {id(one): number for number, one in enumerate(found)}
        if len(numbers) != len(inputs) or {id(one) for one in results} != made.keys():
            return None
        order = [made[id(one)] for one in results]
        return _Direct(graph, [*arguments], places, order, [_layout(one) for one in inputs])


def _where_defined(called: Any) -> str:
    return (type(called) if isinstance(called, nn.Module) else called).__module__ or ""


def _layout(value: Any) -> tuple[Any, ...]:
    """What compiled code takes for granted of an input."""
    return type(value), value.shape, value.stride(), value.dtype, value.device, value.requires_grad
