"""One update of networks that have targets: a loss of flat parameters, its gradient, the steps of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.objectives import LossModule

from torchrl_pool.training._flat_parameters import Pieces, flatten_parameters
from torchrl_pool.training._losses import refuse_counting
from torchrl_pool.training._module_calls import Tensors, call, networks_of
from torchrl_pool.training._traced_once import TracedOnce

Weights = dict[str, torch.Tensor]
Compile: TypeAlias = "bool | Literal['trace']"


class Networks(nn.Module):
    """The networks of a loss's module as functions of their weights.

    Args:
        module: as the loss holds it.
        parts: those of its modules that are called: TensorDictModules around networks.
    """

    def __init__(self, module: nn.Module, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.calls = [one for part in parts for one in networks_of(part)]
        self.networks = nn.ModuleList(one.network for one in self.calls)
        paths = {id(below): path for path, below in module.named_modules()}
        self.names = {
            f"{paths[id(network)]}.{name}": f"networks.{index}.{name}"
            for index, network in enumerate(self.networks)
            for name, _ in network.named_parameters()
        }

    def own(self, weights: Weights) -> Weights:
        """Weights by this module's names, from those by the names of the loss."""
        return {name: weights[theirs] for theirs, name in self.names.items()}

    def forward(self, tensors: Tensors) -> None:
        call(self.calls, tensors)

    def call(self, own: Weights, tensors: Tensors) -> None:
        """Calls the networks with what is in the dict, which gets what they return."""
        torch.func.functional_call(self, own, (tensors,))


class FlatWeights:
    """Parameters of a loss as one tensor, and the pieces of it by their names.

    Args:
        entries: by name; copies of a network that are stacked in the first dimension have a number of copies.
        learned: the names of those that become one tensor; the others stay where they are.
    """

    def __init__(self, entries: Sequence[tuple[str, torch.Tensor, int]], learned: Set[str]) -> None:
        own = [entry for entry in entries if entry[0] in learned]
        self.flat = flatten_parameters([tensor for _, tensor, _ in own])  # type: ignore[misc]
        self._shapes = {name: one.shape for entry in own for name, one in _copies(*entry)}
        others = [entry for entry in entries if entry[0] not in learned]
        self._others = {name: one.detach() for entry in others for name, one in _copies(*entry)}

    def split(self, flat: torch.Tensor) -> Weights:
        """The pieces of a tensor that is laid out like these, and what does not learn."""
        parts = torch.split(flat, [shape.numel() for shape in self._shapes.values()])
        pieces = {n: part.view(shape) for (n, shape), part in zip(self._shapes.items(), parts, strict=True)}
        return pieces | self._others


def _copies(name: str, tensor: torch.Tensor, copies: int) -> list[tuple[str, torch.Tensor]]:
    return [(f"{i}.{name}", tensor[i]) for i in range(copies)] if copies else [(name, tensor)]


def entries_of(
    networks: Networks, params: TensorDictBase, prefix: str, copies: int = 0
) -> list[tuple[str, torch.Tensor, int]]:
    """Parameters of a loss's module with their names; its buffers are left where they are."""
    named = params.flatten_keys(".").items()
    return [(f"{prefix}.{name}", tensor, copies) for name, tensor in sorted(named) if name in networks.names]


def target_entries_of(
    networks: Networks, loss: LossModule, name: str, prefix: str, copies: int = 0
) -> list[tuple[str, torch.Tensor, int]]:
    """The same of targets, which the loss is told that somebody updates."""
    loss._has_update_associated[name] = True
    return entries_of(networks, getattr(loss, f"target_{name}_params"), prefix, copies)


def detached(weights: Weights) -> Weights:
    """Weights that nothing is differentiated by."""
    return {name: one.detach() for name, one in weights.items()}


def below(weights: Weights, prefix: str) -> Weights:
    """Those weights whose names begin with a prefix, without it."""
    start = prefix + "."
    return {name[len(start) :]: one for name, one in weights.items() if name.startswith(start)}


class TargetUpdate(ABC):
    """Does with tensors and indices what a loss, ``backward()``, ``step()`` and SoftUpdate do.

    Algorithms define :meth:`_losses` of weights and tensors, and :attr:`networks` and :attr:`observed`,
    before they are built. Parameters that do not learn then (``requires_grad=False``) are left alone.

    Args:
        loss: whose networks are updated.
        own: its parameters, which the optimiser changes.
        targets: those that follow some of them, with the same names.
        optimizer: makes the optimiser of a list with one parameter.
        tau: how far targets go towards their networks at each step of theirs.
        target_every: updates between two steps of the targets.
        compile: whether ``torch.compile`` makes one graph of everything but the steps; ``"trace"``: the
            operations of the first update are made again, without the Python code around them.
    """

    networks: Sequence[Networks]
    observed: list[Any]
    names: tuple[str, ...]

    def __init__(
        self,
        loss: LossModule,
        own: Sequence[tuple[str, torch.Tensor, int]],
        targets: Sequence[tuple[str, torch.Tensor, int]],
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        tau: float,
        target_every: int,
        compile: Compile,
    ) -> None:
        if compile not in (True, False, "trace"):
            raise ValueError(f"compile: expected True, False or 'trace', got {compile!r}")
        self.loss, self.tau, self.target_every = loss, tau, target_every
        learned = {name: tensor.numel() for name, tensor, _ in own if tensor.requires_grad}
        self._own, self._targets = FlatWeights(own, learned.keys()), FlatWeights(targets, learned.keys())
        self.parameters, self.targets = self._own.flat, self._targets.flat.detach()
        self._pieces = Pieces([(name, tensor) for name, tensor, _ in own], self.parameters)
        followed = list(learned).index(next(name for name, *_ in targets if name in learned))
        start = sum(list(learned.values())[:followed])
        self._followed = self.parameters.detach()[start : start + self.targets.numel()]
        self.optimizer = optimizer([self.parameters])
        keys = loss.tensor_keys
        self.reward_key, self.terminated_key = ("next", keys.reward), ("next", keys.terminated)
        named = keys if hasattr(keys, "steps_to_next_obs") else loss.value_estimator.tensor_keys
        self.steps_key = named.steps_to_next_obs
        self.keys = [*self.observed, *(("next", key) for key in self.observed), keys.action]
        self.keys += [self.reward_key, self.terminated_key]
        self.count = 0
        self._compile = compile
        self._gradients: dict[tuple[int, bool], Callable[..., Any]] = {}

    @abstractmethod
    def _losses(
        self, own: Weights, targets: Weights, rows: Tensors, weights: torch.Tensor | None, *more: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The terms of the loss ``[terms]``, and the errors ``[n]`` that are priorities.

        Args:
            own: the parameters.
            targets: those of the targets.
            rows: the minibatch.
            weights: of its rows ``[n]``, if they count differently.
            more: what else an algorithm needs.
        """

    def columns(self, storage: TensorDictBase) -> list[torch.Tensor]:
        """The tensors of a replay buffer's storage that updates read; they are not copied.

        Where rows tell how many steps they span (``"steps_to_next_obs"``), the value of what follows is
        discounted for each of them.

        Args:
            storage: ``[rows]``: what ``replay_buffer[:]`` gives, or a batch of transitions.

        Returns:
            Tensors ``[rows, …]`` for :meth:`__call__`.
        """
        if self.steps_key not in self.keys and storage.get(self.steps_key, None) is not None:
            self.keys.append(self.steps_key)
        return [storage.get(key) for key in self.keys]

    def _bootstrapped(self, rows: Tensors, gamma: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Rewards ``[n]``, and the value ``[n]`` of what follows where the episode was not terminated.

        Values ``[several, 1]`` are each taken for all rows: ``[several, n]``.
        """
        steps = rows.get(self.steps_key)
        discount = gamma if steps is None else gamma ** steps.reshape(-1)
        going_on = ~rows[self.terminated_key].reshape(-1)
        return rows[self.reward_key].reshape(-1) + discount * going_on * value

    def _step(
        self,
        columns: list[torch.Tensor],
        indices: torch.Tensor,
        weights: torch.Tensor | None,
        *more: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Learns from some rows of the columns; returns the losses and the errors, detached."""
        flat, grad = self.parameters.detach(), self._pieces.gradient()
        inputs = [self.targets, indices, *more, *([] if weights is None else [weights]), *columns]
        form = len(more), weights is not None
        if form not in self._gradients:
            function = self._gradient(*form)
            self._gradients[form] = (
                TracedOnce(function, compile=self._compile is True) if self._compile else function
            )
        gradient, losses, error = self._gradients[form](flat, *inputs)
        grad.copy_(gradient)
        self.optimizer.step()
        self.count += 1
        if self.count % self.target_every == 0:
            self.targets.lerp_(self._followed, self.tau)
        return {**dict(zip(self.names, losses.unbind(), strict=True)), "td_error": error}

    def _gradient(self, num_more: int, weighted: bool) -> Callable[..., Any]:
        for networks in self.networks:
            refuse_counting(networks)

        def gradient(
            flat: torch.Tensor, targets: torch.Tensor, indices: torch.Tensor, *inputs: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            more, rest = inputs[:num_more], inputs[num_more:]
            weights = rest[0] if weighted else None
            rows = {
                key: column.index_select(0, indices)
                for key, column in zip(self.keys, rest[weighted:], strict=True)
            }

            def total(flat: torch.Tensor) -> tuple[torch.Tensor, Any]:
                own, following = self._own.split(flat), self._targets.split(targets)
                losses, error = self._losses(own, following, rows, weights, *more)
                return losses.sum(), (losses.detach(), error.detach())

            found, (losses, error) = torch.func.grad(total, has_aux=True)(flat)
            return found, losses, error

        return gradient

    def state_dict(self) -> dict[str, Any]:
        """Parameters, target parameters, the optimizer's state, and the number of updates."""
        return {
            "parameters": self.parameters.detach().clone(),
            "targets": self.targets.clone(),
            "optimizer": self.optimizer.state_dict(),
            "count": self.count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint.

        Args:
            state: what :meth:`state_dict` returned for the same networks.
        """
        with torch.no_grad():
            self.parameters.copy_(state["parameters"])
            self.targets.copy_(state["targets"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.count = state["count"]


def weighted_mean(values: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """The mean over rows, as TorchRL's losses weigh them."""
    return values.mean() if weights is None else (values * weights).sum() / weights.sum()
