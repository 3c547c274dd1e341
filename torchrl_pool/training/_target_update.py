"""An update of networks that other networks, their targets, follow: one gradient, and the steps of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import nn

from torchrl_pool._env.specs import Key
from torchrl_pool.training._flat_parameters import FlatUpdate, flatten_parameters
from torchrl_pool.training._traced_once import TracedOnce, refuse_counting

Compile: TypeAlias = "bool | Literal['trace']"


class TargetUpdate(FlatUpdate):
    """Learns from rows of a replay buffer, as ``loss(sample)``, ``backward()``, ``step()`` and SoftUpdate do.

    The loss is a module, which holds its networks and their targets. It is called with a minibatch as a dict,
    and whatever else a call gives it; it returns its terms ``[terms]``, whose sum is made less, and an error
    ``[n]`` of each row. The rows are taken from the columns of a replay buffer's storage as a part of the
    graph. All parameters share one tensor, as those of the targets do, so this comes before a collector is
    built, and after ``to``. Those that do not learn (``requires_grad=False``) are left alone.

    Args:
        loss: the module; its parameters that learn become one tensor, in their order.
        optimizer: makes the optimiser of a list with that tensor, as ``partial(Adam, lr=1e-4)`` does.
        followed: the name of the submodule of the loss that its submodule ``target`` follows.
        tau: how far the target goes towards it at each of its steps; 1: it becomes equal.
        target_every: updates between two steps of the target.
        keys: of the entries of a row that the loss reads.
        compile: whether ``torch.compile`` makes one graph of everything but the steps, for minibatches of
            one size; others are not compiled. ``"trace"``: the operations of the first update are made again
            one by one, with the same results in less than half the time for small networks; Python code of
            layers, their hooks and modes are not looked at again.

    Raises:
        ValueError: another way to compile; by the first call, layers that change their statistics then.
        RuntimeError: by a call, where a parameter was moved, replaced, frozen or freed since.

    Examples:
        >>> import copy
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> class Loss(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.critic = nn.Linear(4, 1)
        ...         self.target = copy.deepcopy(self.critic).requires_grad_(False)
        ...     def forward(self, rows):
        ...         target = rows["next", "reward"] + 0.99 * self.target(rows["next", "observation"])
        ...         error = self.critic(rows["observation"]) - target
        ...         return error.square().mean().reshape(1), error.abs().squeeze(-1)
        >>> keys = ["observation", ("next", "observation"), ("next", "reward")]
        >>> adam = partial(torch.optim.Adam, lr=1e-4, fused=True)
        >>> update = TargetUpdate(Loss(), adam, keys=keys, followed="critic", target_every=500)
        >>> after = {"observation": torch.randn(64, 4), "reward": torch.ones(64, 1)}
        >>> columns = update.columns(TensorDict({"observation": torch.randn(64, 4), "next": after}, [64]))
        >>> terms, errors = update(columns, torch.randint(64, (16,)))
        >>> terms.shape, errors.shape
        (torch.Size([1]), torch.Size([16]))
    """

    def __init__(
        self,
        loss: nn.Module,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        keys: list[Key],
        followed: str,
        tau: float = 1.0,
        target_every: int = 1,
        compile: Compile = False,
    ) -> None:
        if compile not in (True, False, "trace"):
            raise ValueError(f"compile: expected True, False or 'trace', got {compile!r}")
        pairs = zip(
            loss.get_submodule(followed).parameters(),
            loss.get_submodule("target").named_parameters(),
            strict=True,
        )
        targets = {f"target.{name}": target for own, (name, target) in pairs if own.requires_grad}
        self.targets = flatten_parameters(targets.values()).detach()
        super().__init__(loss, optimizer)
        self._shapes = {name: one.shape for name, one in self._own.items()}
        self._target_shapes = {name: one.shape for name, one in targets.items()}
        before = itertools.takewhile(lambda name: not name.startswith(f"{followed}."), self._own)
        start = sum(self._own[name].numel() for name in before)
        self._followed = self._flat.detach()[start : start + self.targets.numel()]
        self.loss, self.keys, self.tau, self.target_every, self.count = loss, keys, tau, target_every, 0
        self._compile = compile
        self._gradients: dict[int, Callable[..., Any]] = {}

    def columns(self, storage: TensorDictBase) -> list[torch.Tensor]:
        """The tensors of a replay buffer's storage that the loss reads; they are not copied.

        Args:
            storage: ``[rows]``: what ``replay_buffer[:]`` gives, or a batch of transitions.

        Returns:
            Tensors ``[rows, …]`` for :meth:`__call__`.
        """
        return [storage.get(key) for key in self.keys]

    def __call__(
        self, columns: list[torch.Tensor], indices: torch.Tensor, *more: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Updates the networks with some rows of the columns, then, if it is time, the target.

        Args:
            columns: from :meth:`columns`.
            indices: int64 ``[n]``.
            more: what the loss is called with besides the rows.

        Returns:
            The terms of the loss and the errors of the rows, detached.
        """
        grad = self._gradient_memory()
        if len(more) not in self._gradients:
            function = self._gradient(len(more))
            self._gradients[len(more)] = (
                TracedOnce(function, compile=self._compile is True) if self._compile else function
            )
        gradient, terms, errors = self._gradients[len(more)](
            self._flat.detach(), self.targets, indices, *more, *columns
        )
        grad.copy_(gradient)
        self.optimizer.step()
        self.count += 1
        if self.count % self.target_every == 0:
            self.targets.lerp_(self._followed, self.tau)
        return terms, errors

    def _gradient(self, num_more: int) -> Callable[..., Any]:
        refuse_counting(self.loss)

        def gradient(
            flat: torch.Tensor, targets: torch.Tensor, indices: torch.Tensor, *inputs: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            more, columns = inputs[:num_more], inputs[num_more:]
            rows = {
                key: column.index_select(0, indices) for key, column in zip(self.keys, columns, strict=True)
            }

            def total(flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
                weights = {**_split(flat, self._shapes), **_split(targets, self._target_shapes)}
                terms, errors = torch.func.functional_call(self.loss, weights, (rows, *more))
                return terms.sum(), (terms.detach(), errors.detach())

            found, (terms, errors) = torch.func.grad(total, has_aux=True)(flat)
            return found, terms, errors

        return gradient

    def state_dict(self) -> dict[str, Any]:
        """Parameters, target parameters, the optimizer's state, and the number of updates."""
        return {**super().state_dict(), "targets": self.targets.clone(), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint.

        Args:
            state: what :meth:`state_dict` returned for the same networks.
        """
        super().load_state_dict(state)
        self.targets.copy_(state["targets"])
        self.count = state["count"]


def _split(flat: torch.Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, torch.Tensor]:
    """The pieces of a flat tensor, by name."""
    parts = torch.split(flat, [shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
