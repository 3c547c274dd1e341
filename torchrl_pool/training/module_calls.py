"""Modules that read and write tensordicts, called on a plain dict of tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

Key: TypeAlias = "str | tuple[str, ...]"
Tensors: TypeAlias = "dict[Key, torch.Tensor]"


def steps_of(module: Any) -> list[tuple[nn.Module, list[Key], list[Key]]]:
    """The networks below a module in the order of their calls, each with the keys that it reads and writes.

    Raises:
        TypeError: a module that is not a :class:`~tensordict.nn.TensorDictModule` around a network.
    """
    if isinstance(module, TensorDictSequential):
        return [step for part in module.module for step in steps_of(part)]
    # A safe module projects its outputs, and one with keyword arguments is called differently.
    plain = isinstance(module, TensorDictModule) and isinstance(module.module, nn.Module)
    if not plain or getattr(module, "_kwargs", None) or getattr(module, "safe", False):
        raise TypeError(f"expected TensorDictModules around networks, got {type(module).__name__}")
    return [(module.module, list(module.in_keys), list(module.out_keys))]


def call(steps: list[tuple[nn.Module, list[Key], list[Key]]], tensors: Tensors) -> None:
    """Calls networks one after the other, each with what is in the dict, which gets what they return."""
    for network, in_keys, out_keys in steps:
        outputs = network(*[tensors[key] for key in in_keys])
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        tensors.update(zip(out_keys, outputs, strict=False))
