"""A function that torch compiles for the shapes that it is first called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx


class CompiledOnce:
    """Calls a function of tensors: a graph of it where shapes are the first call's, else the function itself.

    Of the Python code only the arithmetic is left in the graph. Shapes are compared here, so that nothing
    else has to be looked at before each call: not a layer, not a hook.

    Args:
        function: of tensors, to tensors.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._compiled: Callable[..., Any] | None = None
        self._shapes: list[torch.Size] = []

    def __call__(self, *inputs: torch.Tensor) -> Any:
        shapes = [one.shape for one in inputs]
        if self._compiled is None:
            self._shapes = shapes
            self._compiled = torch.compile(
                make_fx(self._function)(*inputs),
                fullgraph=True,
                dynamic=False,
                options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
            )
        return self._compiled(*inputs) if shapes == self._shapes else self._function(*inputs)
