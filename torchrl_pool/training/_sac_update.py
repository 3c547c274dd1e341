"""One update of SAC: SACLoss's numbers from plain tensors, its gradients, and the optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torchrl.objectives import SACLoss
from torchrl.objectives.utils import distance_loss
from torchrl.objectives.value import TD0Estimator

from torchrl_pool._collecting.lean_policy import read_first
from torchrl_pool.training._densities import TanhNormalDensity, density_of
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


class SACUpdate(TargetUpdate):
    """Does with columns and indices what ``loss(sample)``, ``backward()``, ``step()`` and SoftUpdate do.

    The columns are those of a replay buffer's storage, from which the graph takes the rows itself. Losses and
    gradients are those of the loss up to the rounding of sums. Actor, critics and temperature share a tensor,
    as the critics' targets do, so this comes before the collector is built.

    Args:
        loss: with an actor that draws from ``TanhNormal``, without a value network; its value estimator
            (``make_value_estimator``) is TD(0).
        optimizer: makes the optimiser of a list with one tensor, as ``partial(Adam, lr=3e-4)`` does.
        tau: how far the targets go towards the critics at each of their steps.
        target_every: updates between two steps of the targets.
        generator: of the actions that are drawn; None: torch's.
        compile: whether ``torch.compile`` makes one graph of everything but the steps, for minibatches of
            one size; others are not compiled. ``"trace"``: the operations of the first update are made again
            one by one, with the same results in less than half the time for small networks; Python code of
            layers, their hooks and modes are not looked at again.

    Raises:
        TypeError: networks that are not in TensorDictModules, or another distribution.
        ValueError: an unsupported option of the loss.

    Examples:
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import NormalParamExtractor, TensorDictModule
        >>> from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
        >>> network = nn.Sequential(nn.Linear(4, 2), NormalParamExtractor())
        >>> normal = TensorDictModule(network, ["observation"], ["loc", "scale"])
        >>> draw = {"distribution_class": TanhNormal, "return_log_prob": True}
        >>> actor = ProbabilisticActor(normal, in_keys=["loc", "scale"], **draw)
        >>> class Critic(nn.Linear):
        ...     def forward(self, observation, action):
        ...         return super().forward(torch.cat([observation, action], -1))
        >>> critic = ValueOperator(Critic(5, 1), in_keys=["observation", "action"])
        >>> loss = SACLoss(actor, critic, loss_function="l2", target_entropy=-1.0)
        >>> loss.make_value_estimator(gamma=0.99)
        >>> update = SACUpdate(loss, partial(torch.optim.Adam, lr=3e-4, fused=True), tau=0.005)
        >>> after = {"observation": torch.randn(64, 4), "reward": torch.ones(64, 1)}
        >>> after["terminated"] = torch.zeros(64, 1, dtype=torch.bool)
        >>> steps = {"observation": torch.randn(64, 4), "action": torch.rand(64, 1), "next": after}
        >>> columns = update.columns(TensorDict(steps, batch_size=[64]))
        >>> sorted(update(columns, torch.randint(64, (16,))))
        ['loss_actor', 'loss_alpha', 'loss_qvalue', 'td_error']
    """

    names = ("loss_qvalue", "loss_actor", "loss_alpha")

    def __init__(
        self,
        loss: SACLoss,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        tau: float,
        target_every: int = 1,
        generator: torch.Generator | None = None,
        compile: Compile = False,
    ) -> None:
        _check(loss)
        density = density_of(loss.actor_network.module[-1])
        if not isinstance(density, TanhNormalDensity):
            raise TypeError("loss: expected an actor that draws from TanhNormal")
        self.density, self.generator = density, generator
        self.actor = Networks(loss.actor_network, list(loss.actor_network.module)[:-1])
        self.critic = Networks(loss.qvalue_network, [loss.qvalue_network])
        self.networks = self.actor, self.critic
        self.copies = loss.num_qvalue_nets
        self.learns_alpha = isinstance(loss.log_alpha, nn.Parameter)
        keys = loss.tensor_keys
        self.observed: list[Any] = list(
            dict.fromkeys(
                key
                for key in [*read_first(self.actor.calls), *read_first(self.critic.calls)]
                if key != keys.action
            )
        )
        critics = entries_of(self.critic, loss.qvalue_network_params, "critic", self.copies)
        actor = entries_of(self.actor, loss.actor_network_params, "actor")
        alpha = [("log_alpha", loss.log_alpha, 0)] if self.learns_alpha else []
        super().__init__(
            loss,
            [*actor, *critics, *alpha],
            target_entries_of(self.critic, loss, "qvalue_network", "critic", self.copies),
            optimizer,
            tau=tau,
            target_every=target_every,
            compile=compile,
        )

    def __call__(
        self,
        columns: list[torch.Tensor],
        indices: torch.Tensor,
        weights: torch.Tensor | None = None,
        noise: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Updates the networks with some rows of the columns, then the targets.

        Args:
            columns: from :meth:`columns`.
            indices: int64 ``[n]``.
            weights: of the rows ``[n]``, as a prioritised sampler gives them.
            noise: standard normal numbers ``[2, n, action]``, for the next actions and for today's; None:
                they are drawn.

        Returns:
            ``"loss_qvalue"``, ``"loss_actor"`` and ``"loss_alpha"``, as the loss names them, and
            ``"td_error"`` ``[n]``, all detached.
        """
        if noise is None:
            action = columns[self.keys.index(self.loss.tensor_keys.action)]
            noise = torch.randn(
                2, indices.numel(), action.shape[-1], generator=self.generator, device=action.device
            )
        coefficients = [self.loss.value_estimator.gamma, self.loss.target_entropy_buffer]
        alpha = [] if self.learns_alpha else [self.loss.log_alpha]
        return self._step(columns, indices, weights, noise, *coefficients, *alpha)

    def _losses(
        self, own: Weights, targets: Weights, rows: Tensors, weights: torch.Tensor | None, *more: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        noise, gamma, target_entropy, *fixed = more
        log_alpha = own["log_alpha"] if self.learns_alpha else fixed[0]
        alpha = log_alpha.detach().exp()
        actor = self.actor.own(below(own, "actor"))
        critics = [self.critic.own(below(own, f"{copy}.critic")) for copy in range(self.copies)]
        action_key = self.loss.tensor_keys.action

        before = {key: rows[key] for key in self.observed}
        after = {key: rows["next", key] for key in self.observed}
        next_action, next_log_prob = self._drawn(detached(actor), after, noise[0])
        following = [self.critic.own(below(targets, f"{copy}.critic")) for copy in range(self.copies)]
        next_value = self._least(following, {**after, action_key: next_action}) - alpha * next_log_prob
        target = self._bootstrapped(rows, gamma, next_value).detach()

        values = self._values(critics, {**before, action_key: rows[action_key]})
        kind = self.loss.loss_function
        distances = [distance_loss(value, target, loss_function=kind) for value in values]
        error = torch.stack([(value - target).abs() for value in values]).amax(0)

        action, log_prob = self._drawn(actor, before, noise[1])
        value = self._least([detached(one) for one in critics], {**before, action_key: action})
        terms = [sum(distances), alpha * log_prob - value]
        terms.append(-log_alpha * (log_prob.detach() + target_entropy))
        return torch.stack([weighted_mean(term, weights) for term in terms]), error

    def _drawn(self, actor: Weights, seen: Tensors, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tensors = dict(seen)
        self.actor.call(actor, tensors)
        return self.density.drawn(tensors, noise)

    def _values(self, critics: list[Weights], seen: Tensors) -> list[torch.Tensor]:
        found = []
        for critic in critics:
            tensors = dict(seen)
            self.critic.call(critic, tensors)
            found.append(tensors[self.loss.tensor_keys.state_action_value].squeeze(-1))
        return found

    def _least(self, critics: list[Weights], seen: Tensors) -> torch.Tensor:
        return torch.stack(self._values(critics, seen)).amin(0)


def _check(loss: Any) -> None:
    check_class(loss, SACLoss)
    if type(loss.value_estimator) is not TD0Estimator:
        raise ValueError(
            f"loss: expected TD(0) to estimate values, got {type(loss.value_estimator).__name__}"
        )
    refuse_unknown(
        {
            "value_network": loss._version == 1,
            "delay_actor": loss.delay_actor,
            "delay_qvalue=False": not loss.delay_qvalue,
            "skip_done_states": loss.skip_done_states,
            "min_alpha": loss.min_log_alpha is not None,
            "max_alpha": loss.max_log_alpha is not None,
            "target_entropy=None": loss.target_entropy is None,
            "reduction": loss.reduction != "mean",
        }
    )
