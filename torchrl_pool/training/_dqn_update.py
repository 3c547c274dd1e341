"""One update of DQN: DQNLoss's numbers from plain tensors, its gradients, and the optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torchrl.objectives import DQNLoss
from torchrl.objectives.utils import distance_loss
from torchrl.objectives.value import TD0Estimator

from torchrl_pool._collecting.lean_policy import read_first
from torchrl_pool.training._losses import check_class, refuse_unknown
from torchrl_pool.training._module_calls import Tensors
from torchrl_pool.training._target_update import (
    Compile,
    Networks,
    TargetUpdate,
    Weights,
    below,
    detached,
    entries_of,
    target_entries_of,
    weighted_mean,
)


class DQNUpdate(TargetUpdate):
    """Does with columns and indices what ``loss(sample)``, ``backward()``, ``step()`` and a target's step do.

    The columns are those of a replay buffer's storage, from which the graph takes the rows itself. Losses and
    gradients are those of the loss up to the rounding of sums. The network's parameters share a tensor, as
    the target's do, so this comes before the collector is built.

    Args:
        loss: of a :class:`~torchrl.modules.QValueActor` and actions that are numbers (``"categorical"``) or
            one-hot, double or not; its value estimator (``make_value_estimator``) is TD(0).
        optimizer: makes the optimiser of a list with one tensor, as ``partial(Adam, lr=1e-4)`` does.
        tau: how far the target goes towards the network at each of its steps; 1: it becomes equal.
        target_every: updates between two steps of the target.
        compile: whether ``torch.compile`` makes one graph of everything but the steps, for minibatches of
            one size; others are not compiled. ``"trace"``: the operations of the first update are made again
            one by one, with the same results in less than half the time for small networks; Python code of
            layers, their hooks and modes are not looked at again.

    Raises:
        TypeError: networks that are not in TensorDictModules.
        ValueError: an unsupported option of the loss.

    Examples:
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> from torchrl.data import Categorical
        >>> from torchrl.modules import QValueActor
        >>> actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=Categorical(2))
        >>> loss = DQNLoss(actor, loss_function="l2", delay_value=True, action_space="categorical")
        >>> loss.make_value_estimator(gamma=0.99)
        >>> update = DQNUpdate(loss, partial(torch.optim.Adam, lr=1e-4, fused=True), target_every=500)
        >>> after = {"observation": torch.randn(64, 4), "reward": torch.ones(64, 1)}
        >>> after["terminated"] = torch.zeros(64, 1, dtype=torch.bool)
        >>> steps = {"observation": torch.randn(64, 4), "action": torch.randint(2, (64,)), "next": after}
        >>> columns = update.columns(TensorDict(steps, batch_size=[64]))
        >>> sorted(update(columns, torch.randint(64, (16,))))
        ['loss', 'td_error']
    """

    names = ("loss",)

    def __init__(
        self,
        loss: DQNLoss,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        tau: float = 1.0,
        target_every: int = 1,
        compile: Compile = False,
    ) -> None:
        self._check(loss)
        self.network = Networks(loss.value_network, list(loss.value_network)[:-1])
        self.networks = (self.network,)
        self.observed: list[Any] = read_first(self.network.calls)
        super().__init__(
            loss,
            entries_of(self.network, loss.value_network_params, "network"),
            target_entries_of(self.network, loss, "value_network", "network"),
            optimizer,
            tau=tau,
            target_every=target_every,
            compile=compile,
        )

    def __call__(
        self, columns: list[torch.Tensor], indices: torch.Tensor, weights: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Updates the network with some rows of the columns, then, if it is time, the target.

        Args:
            columns: from :meth:`columns`.
            indices: int64 ``[n]``.
            weights: of the rows ``[n]``, as a prioritised sampler gives them.

        Returns:
            ``"loss"``, and ``"td_error"`` ``[n]``, as the loss names them; detached: squared errors, and
            cross-entropies where distributions are learned.
        """
        return self._step(columns, indices, weights, *self._coefficients())

    def _coefficients(self) -> list[torch.Tensor]:
        """What :meth:`_losses` gets beside the rows."""
        return [self.loss.value_estimator.gamma]

    def _losses(
        self, own: Weights, targets: Weights, rows: Tensors, weights: torch.Tensor | None, *more: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        after = {key: rows["next", key] for key in self.observed}
        following = self._values(targets, after)
        if self.loss.double_dqn:
            now = self._values(detached(own), after)
            best = following.gather(-1, now.argmax(-1, keepdim=True)).squeeze(-1)
        else:
            best = following.amax(-1)
        target = self._bootstrapped(rows, more[0], best)

        action = self._numbers(rows[self.loss.tensor_keys.action])
        values = self._values(own, {key: rows[key] for key in self.observed})
        value = values.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        distance = distance_loss(value, target, loss_function=self.loss.loss_function)
        return weighted_mean(distance, weights).reshape(1), (value - target).square()

    def _values(self, weights: Weights, seen: Tensors) -> torch.Tensor:
        tensors = dict(seen)
        self.network.call(self.network.own(below(weights, "network")), tensors)
        return tensors[self.loss.tensor_keys.action_value]

    def _numbers(self, action: torch.Tensor) -> torch.Tensor:
        """The numbers ``[n]`` of actions."""
        is_one_hot = self.loss.action_space == "one_hot"
        return action.to(torch.uint8).argmax(-1) if is_one_hot else action.reshape(-1)

    def _check(self, loss: Any) -> None:
        """Refuses what it does not know of a loss."""
        check_class(loss, DQNLoss)
        if type(loss.value_estimator) is not TD0Estimator:
            raise ValueError(
                f"loss: expected TD(0) to estimate values, got {type(loss.value_estimator).__name__}"
            )
        refuse_unknown(
            {
                "delay_value=False": not loss.delay_value,
                "reduction": loss.reduction != "mean",
                f"action_space={loss.action_space}": loss.action_space not in ("categorical", "one_hot"),
            }
        )
