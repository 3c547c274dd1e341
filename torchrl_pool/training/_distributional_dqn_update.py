"""One update of C51: DistributionalDQNLoss's numbers from plain tensors, its gradients, the steps."""

from __future__ import annotations

from typing import Any

import torch
from torchrl.objectives import DistributionalDQNLoss

from torchrl_pool.training._dqn_update import DQNUpdate
from torchrl_pool.training._losses import check_class, refuse_unknown
from torchrl_pool.training._module_calls import Tensors
from torchrl_pool.training._target_update import Weights, detached, weighted_mean


class DistributionalDQNUpdate(DQNUpdate):
    """What :class:`DQNUpdate` does, for distributions of returns over some atoms (Bellemare et al. 2017).

    The network chooses the next action by the mean of its distribution, the target says how the return is
    distributed from there; each of its atoms is moved by reward and discount, and its probability is split
    between the two atoms around where it comes to be.

    Args:
        loss: of a :class:`~torchrl.modules.DistributionalQValueActor` with ``make_log_softmax=False``, whose
            network ends with ``torch.nn.LogSoftmax(-2)``: log-probabilities ``[n, atoms, actions]``. Its
            support is evenly spaced and ascends.
        optimizer: makes the optimiser of a list with one tensor, as ``partial(Adam, lr=1e-4)`` does.
        tau: how far the target goes towards the network at each of its steps; 1: it becomes equal.
        target_every: updates between two steps of the target.
        compile: whether ``torch.compile`` makes one graph of everything but the steps, for minibatches of
            one size; others are not compiled. ``"trace"``: the operations of the first update are made again
            one by one, with the same results in less than half the time for small networks; Python code of
            layers, their hooks and modes are not looked at again.

    Raises:
        TypeError: networks that are not in TensorDictModules.
        ValueError: an unsupported option of the loss, or another support.

    Examples:
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> from torch import nn
        >>> from torchrl.data import Categorical
        >>> from torchrl.modules import DistributionalQValueActor
        >>> network = nn.Sequential(nn.Linear(4, 51 * 2), nn.Unflatten(-1, (51, 2)), nn.LogSoftmax(-2))
        >>> options = {"spec": Categorical(2), "make_log_softmax": False}
        >>> actor = DistributionalQValueActor(network, torch.linspace(-10, 10, 51), **options)
        >>> loss = DistributionalDQNLoss(actor, gamma=0.99, delay_value=True)
        >>> adam = partial(torch.optim.Adam, lr=1e-4, fused=True)
        >>> update = DistributionalDQNUpdate(loss, adam, target_every=500)
        >>> after = {"observation": torch.randn(64, 4), "reward": torch.ones(64, 1)}
        >>> after["terminated"] = torch.zeros(64, 1, dtype=torch.bool)
        >>> steps = {"observation": torch.randn(64, 4), "action": torch.randint(2, (64,)), "next": after}
        >>> columns = update.columns(TensorDict(steps, batch_size=[64]))
        >>> sorted(update(columns, torch.randint(64, (16,))))
        ['loss', 'td_error']
    """

    def _coefficients(self) -> list[torch.Tensor]:
        return [self.loss.gamma, self.loss.value_network_params.get("support")]

    def _losses(
        self, own: Weights, targets: Weights, rows: Tensors, weights: torch.Tensor | None, *more: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gamma, support = more
        after = {key: rows["next", key] for key in self.observed}
        now = self._values(detached(own), after)
        best = (now.exp() * support.unsqueeze(-1)).sum(-2).argmax(-1)
        following = _of(self._values(targets, after), best).exp()
        moved = self._bootstrapped(rows, gamma, support.unsqueeze(-1)).T
        target = projected(following, moved, support)

        action = self._numbers(rows[self.loss.tensor_keys.action])
        log_probs = _of(self._values(own, {key: rows[key] for key in self.observed}), action)
        error = -(target * log_probs).sum(-1)
        return weighted_mean(error, weights).reshape(1), error

    def _check(self, loss: Any) -> None:
        check_class(loss, DistributionalDQNLoss)
        steps = loss.value_network_params.get("support").diff()
        is_even = bool((steps > 0).all()) and torch.allclose(steps, steps.mean().expand_as(steps), rtol=1e-3)
        refuse_unknown(
            {
                "a support that is not evenly spaced": not is_even,
                "delay_value=False": not loss.delay_value,
                "reduction": loss.reduction != "mean",
                "use_prioritized_weights": loss.use_prioritized_weights != "auto",
                f"action_space={loss.action_space}": loss.action_space not in ("categorical", "one_hot"),
            }
        )


def _of(distributions: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """The distributions ``[n, atoms]`` of some actions ``[n]``, from those of all ``[n, atoms, actions]``."""
    index = action.reshape(-1, 1, 1).expand(-1, distributions.shape[-2], 1)
    return distributions.gather(-1, index).squeeze(-1)


def projected(probabilities: torch.Tensor, moved: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """A distribution over other values, as one over the support with (nearly) the same mean.

    Args:
        probabilities: ``[n, atoms]``.
        moved: what the atoms have become ``[n, atoms]``; those beyond the ends count as the ends.
        support: the atoms, evenly spaced ``[atoms]``.
    """
    low, high, last = support[0], support[-1], support.numel() - 1
    place = (moved.clamp(low, high) - low) * (last / (high - low))
    below = place.floor().clamp_max(last - 1)
    above_share = place - below
    found = torch.zeros_like(probabilities)
    found = found.scatter_add(-1, below.long(), probabilities * (1 - above_share))
    return found.scatter_add(-1, below.long() + 1, probabilities * above_share)
