"""What updates ask of TorchRL's losses: that nothing is set which they would pass over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

DISTANCES: dict[str, Callable[..., torch.Tensor]] = {
    "l1": nn.functional.l1_loss,
    "l2": nn.functional.mse_loss,
    "smooth_l1": nn.functional.smooth_l1_loss,
}


def check_class(loss: Any, expected: type) -> None:
    """By exact class: what a subclass changes nobody here knows."""
    if type(loss) is not expected:
        raise TypeError(f"loss: expected {expected.__name__}, got {type(loss).__name__}")


def refuse_unknown(are_set: Mapping[str, Any]) -> None:
    """Refuses options of a loss, by name, that are set."""
    unknown = [name for name, is_set in are_set.items() if is_set]
    if unknown:
        raise ValueError(f"loss: expected none of these unsupported options: {', '.join(unknown)}")


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
