"""A function that is written down as the operations of its first call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.modules.batchnorm import _NormBase

Layout = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device]


class TracedOnce:
    """Makes the operations of the first call again for tensors of the same layout, else calls the function.

    Of the Python code only the arithmetic is left, that of gradients too. What compiled code takes for
    granted of its inputs (shapes, strides, dtypes, devices) is compared here, so that nothing else has to
    be looked at before each call: not a layer, not a hook.

    Args:
        function: of tensors, to tensors.
        compile: whether torch.compile makes a graph of them; else they are called one by one.
    """

    def __init__(self, function: Callable[..., Any], *, compile: bool) -> None:
        self._function, self._compile = function, compile
        self._traced: Callable[..., Any] | None = None
        self._layouts: list[Layout] = []

    def __call__(self, *inputs: torch.Tensor) -> Any:
        layouts: list[Layout] = [(one.shape, one.stride(), one.dtype, one.device) for one in inputs]
        if self._traced is None:
            self._layouts, self._traced = layouts, self._trace(*inputs)
        return self._traced(*inputs) if layouts == self._layouts else self._function(*inputs)

    def _trace(self, *inputs: torch.Tensor) -> Callable[..., Any]:
        # Of tensors without values: nothing is drawn or changed, for the first call is yet to come.
        trace = make_fx(self._function, tracing_mode="fake", _allow_non_fake_inputs=True)
        traced = trace(*inputs)
        if not self._compile:
            forward: Callable[..., Any] = traced.forward
            return forward
        # Kernels are called from C++, not from Python: small networks' updates take an eighth less time. For
        # a GPU that would need the headers of CUDA's toolkit, which torch's wheels do not bring.
        options: dict[str, Any] = {"cpp_wrapper": all(one.is_cpu for one in inputs)}
        options["guard_filter_fn"] = lambda guards: [False] * len(guards)
        return torch.compile(traced, fullgraph=True, dynamic=False, options=options)


def refuse_counting(networks: nn.Module) -> None:
    """Refuses layers that change what they keep while a gradient is made of them as functions.

    Raises:
        ValueError: a layer of batch normalisation in train mode that keeps running statistics.
    """
    for name, layer in networks.named_modules():
        if isinstance(layer, _NormBase) and layer.training and layer.track_running_stats:
            raise ValueError(
                f"loss: {type(layer).__name__} {name!r} changes its statistics with each call in train mode, "
                "which cannot be part of this gradient: call eval() on it, or use LayerNorm"
            )
