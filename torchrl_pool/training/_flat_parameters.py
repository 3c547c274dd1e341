"""The parameters of small networks as one: an optimiser that has but one tensor to go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from torchrl_pool import _core


def flatten_parameters(parameters: Iterable[nn.Parameter]) -> nn.Parameter:
    """Lets parameters share one tensor, which is what an optimiser gets instead of them.

    Clipping, zeroing and a fused optimiser then go through one tensor, not one for every layer. Of a compiled
    update of networks with two layers of 64 units that was nearly half.

    The parameters stay those of their modules, and the same objects; their ``data`` and ``grad`` become
    views. Do it before anything keeps their ``data``: before a collector is built, and after ``to``.

    Args:
        parameters: floating-point parameters of one dtype on one device.

    Returns:
        A parameter ``[numbers of all]``, in their order. Its ``grad`` is there from now on: set it to zero
        with ``zero_grad(set_to_none=False)``.

    Raises:
        ValueError: there are no parameters, or they differ in dtype or device.

    Examples:
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        >>> flat = flatten_parameters(net.parameters())
        >>> optimizer = torch.optim.SGD([flat], lr=0.1)
        >>> net(torch.ones(3)).sum().backward()
        >>> optimizer.step()
        >>> flat.shape, bool((net[2].bias.grad == flat.grad[-1]).all())
        (torch.Size([11]), True)
    """
    own = list(parameters)
    if len({(parameter.dtype, parameter.device) for parameter in own}) != 1:
        kinds = sorted({f"{parameter.dtype} on {parameter.device}" for parameter in own})
        raise ValueError(f"parameters: expected some, of one dtype on one device, got {kinds}")
    flat = nn.Parameter(torch.cat([parameter.detach().reshape(-1) for parameter in own]))
    flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in own]
    for parameter, data, grad in zip(
        own, torch.split(flat.detach(), sizes), torch.split(flat.grad, sizes), strict=True
    ):
        parameter.data = data.view_as(parameter)
        parameter.grad = grad.view_as(parameter)
    return flat


def shrinking(gradient: torch.Tensor, max_norm: float) -> torch.Tensor:
    """The factor by which ``torch.nn.utils.clip_grad_norm_`` shrinks a gradient."""
    norm: torch.Tensor = torch.linalg.vector_norm(gradient)
    return (max_norm / (norm + 1e-6)).clamp_max(1.0)


class FlatUpdate:
    """What updates have in common whose optimiser steps one flat parameter.

    Parameters that do not learn (``requires_grad=False``) when it is made are left alone.

    Args:
        networks: those that learn.
        optimizer: makes the optimiser of a list with the one tensor that their parameters become.
    """

    def __init__(
        self,
        networks: nn.Module,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    ) -> None:
        named = dict(networks.named_parameters())
        self._own = {name: one for name, one in named.items() if one.requires_grad}
        self._flat = flatten_parameters(self._own.values())
        self._flat_grad = self._flat.grad
        self._parameters = [
            (name, one, one.data_ptr(), one.requires_grad, one.grad) for name, one in named.items()
        ]
        self._watched: list[tuple[Any, Any, Any, None]] = [
            (module._parameters, name, one, None)
            for module in networks.modules()
            for name, one in module._parameters.items()
        ]
        if isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                "optimizer: expected an optimizer factory, such as functools.partial("
                f"{type(optimizer).__name__}, lr=3e-4), got an optimizer"
            )
        self.optimizer = optimizer([self._flat])

    def _gradient_memory(self) -> torch.Tensor:
        """Where the gradient of all parameters goes, which ``optimizer.step()`` reads.

        What a ``zero_grad()`` elsewhere has taken away is given back: updates set it to zero.

        Raises:
            RuntimeError: a parameter lies elsewhere, as after ``to()`` or ``double()``, or has been replaced,
                frozen or freed: what is learned here would not be what is called there.
        """
        if not _core.is_unchanged(self._watched):
            raise RuntimeError(
                "a parameter was replaced after the update was made, as load_state_dict(..., "
                "assign=True) does: make a new update"
            )
        if self._flat.grad is not self._flat_grad:
            self._flat.grad = self._flat_grad
        for name, parameter, address, learns, grad in self._parameters:
            if parameter.data_ptr() != address:
                raise RuntimeError(f"{name!r} was moved after the update was made: make a new update")
            if parameter.requires_grad is not learns:
                done = "frozen" if learns else "freed"
                raise RuntimeError(f"{name!r} was {done} after the update was made: make a new update")
            if parameter.grad is not grad and learns:
                parameter.grad = grad
        assert self._flat_grad is not None
        return self._flat_grad

    def state_dict(self) -> dict[str, Any]:
        """Parameters and the optimizer's state."""
        return {"parameters": self._flat.detach().clone(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint.

        Args:
            state: what :meth:`state_dict` returned for the same networks.
        """
        with torch.no_grad():
            self._flat.copy_(state["parameters"])
        self.optimizer.load_state_dict(state["optimizer"])
