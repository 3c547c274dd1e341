"""One update of IMPALA: V-trace, A2CLoss's terms on it, their gradients, and the optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.objectives import A2CLoss

from torchrl_pool._collecting.lean_policy import read_first
from torchrl_pool._collecting.lean_policy.distributions import density_of
from torchrl_pool.training._flat_parameters import FlatUpdate, shrinking
from torchrl_pool.training._losses import DISTANCES, check_class, refuse_unknown
from torchrl_pool.training._module_calls import Tensors, call, networks_of, with_critic
from torchrl_pool.training._sequences import check_trajectories
from torchrl_pool.training._vtrace import vtrace_targets


class VTraceUpdate(FlatUpdate):
    """A minibatch's V-trace, :class:`~torchrl.objectives.A2CLoss` with it, its gradients, and a step.

    One forward pass gives log-probabilities and values, where TorchRL's modules ask each network twice or
    three times; :func:`~torchrl_pool.training.vtrace_targets` makes corrected targets of them as constants,
    and only observations that no next step has, where a trajectory is cut, cost another one. Losses and
    gradients are those of the loss up to the rounding of sums; with ``TanhNormal``, ``"loss_objective"`` is
    another number with the same gradient.

    The parameters are made views of one tensor (:func:`~torchrl_pool.training.flatten_parameters`), so this
    comes before the collector is built, and after ``to``. Those that do not learn (``requires_grad=False``)
    are left alone.

    Args:
        loss: the loss. Its coefficients, keys, distance and reduction (``"mean"`` or ``"sum"``) are followed.
        optimizer: makes the optimiser of a list with that one tensor.
        gamma: the discount.
        rho_clip: V-trace's largest weight of a step's own error.
        c_clip: V-trace's largest weight of the errors that follow.
        max_grad_norm: the gradients' largest norm, all parameters together; None: any.

    Raises:
        TypeError: networks that are not in TensorDictModules, or a distribution that is none of
            ``IndependentNormal``, ``TanhNormal``, ``Categorical`` and ``OneHotCategorical``.
        ValueError: an unsupported option of the loss.
        RuntimeError: by a call, where a parameter was moved, replaced, frozen or freed since.

    Examples:
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> from torchrl.modules import ProbabilisticActor, OneHotCategorical, ValueOperator
        >>> logits = TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"])
        >>> draw = {"distribution_class": OneHotCategorical, "return_log_prob": True}
        >>> actor = ProbabilisticActor(logits, in_keys=["logits"], **draw)
        >>> critic = ValueOperator(nn.Linear(4, 1), in_keys=["observation"])
        >>> loss = A2CLoss(actor, critic, loss_critic_type="l2", reduction="sum")
        >>> rms_prop = partial(torch.optim.RMSprop, lr=6e-4, alpha=0.99, eps=0.01)
        >>> update = VTraceUpdate(loss, rms_prop, gamma=0.99, max_grad_norm=40.0)
        >>> batch = actor(TensorDict({"observation": torch.randn(8, 5, 4)}, batch_size=[8, 5]))
        >>> never = torch.zeros(8, 5, 1, dtype=torch.bool)
        >>> after = {"observation": torch.randn(8, 5, 4), "reward": torch.ones(8, 5, 1)}
        >>> batch["next"] = {**after, "done": never, "terminated": never}
        >>> sorted(update(batch))
        ['loss_critic', 'loss_entropy', 'loss_objective']
    """

    def __init__(
        self,
        loss: A2CLoss,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        gamma: float,
        rho_clip: float = 1.0,
        c_clip: float = 1.0,
        max_grad_norm: float | None = None,
    ) -> None:
        _check(loss)
        self.loss, self.max_grad_norm = loss, max_grad_norm
        self._vtrace = {"gamma": gamma, "rho_clip": rho_clip, "c_clip": c_clip}
        self._density = density_of(loss.actor_network.module[-1])
        self._has_bonus = bool(loss.entropy_bonus)
        if self._has_bonus and not self._density.has_entropy:
            raise ValueError("loss: expected no entropy bonus for TanhNormal, whose entropy has no formula")
        critic = networks_of(loss.critic_network)
        heads = [one for part in list(loss.actor_network.module)[:-1] for one in networks_of(part)]
        # A trunk that both have is called once.
        self._calls, self._critic = with_critic(heads, critic), critic
        self._observed: list[Any] = read_first(self._calls)
        super().__init__(nn.ModuleList(one.network for one in self._calls), optimizer)

    def __call__(self, *parts: TensorDictBase) -> dict[str, torch.Tensor]:
        """Updates the networks with some envs' steps.

        Args:
            parts: ``[n, T]`` each, with names as a collector gives them. The gradient is the mean of theirs:
                several make a minibatch that is too large for one look.

        Returns:
            ``"loss_objective"``, ``"loss_critic"`` and ``"loss_entropy"``, detached, the parts' mean.

        Raises:
            ValueError: no parts, or a part of other dimensions.
        """
        if not parts:
            raise ValueError("expected at least one part of a minibatch, got none")
        for part in parts:
            check_trajectories(part)
        grad = self._gradient_memory()
        grad.zero_()
        total = torch.zeros(3)
        for part in parts:
            losses = self._losses(part) / len(parts)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            total = total + losses.detach().cpu()
        if self.max_grad_norm is not None:
            grad.mul_(shrinking(grad, self.max_grad_norm))
        self.optimizer.step()
        objective, critic, entropy = total.unbind()
        return {"loss_objective": objective, "loss_critic": critic, "loss_entropy": entropy}

    def _losses(self, steps: TensorDictBase) -> torch.Tensor:
        loss, keys, rows = self.loss, self.loss.tensor_keys, steps.reshape(-1)
        tensors: Tensors = {key: rows.get(key) for key in self._observed}
        call(self._calls, tensors)
        action, more = self._density.prepared(rows.get(keys.action))
        before = rows.get(keys.sample_log_prob) + more
        log_prob = self._density.log_prob(tensors, action)
        value = tensors[keys.value].squeeze(-1)
        log_ratio = (log_prob.detach() - before).view(steps.shape)
        advantage, target = self._targets(steps, value.detach().view(steps.shape), log_ratio)
        reduced = torch.sum if loss.reduction == "sum" else torch.mean
        objective = -reduced(log_prob * advantage.reshape(-1))
        distance = DISTANCES[loss.loss_critic_type](value, target.reshape(-1), reduction="none")
        bonus = torch.zeros_like(objective)
        if self._has_bonus:
            bonus = -loss.entropy_coeff * reduced(self._density.entropy(tensors))
        return torch.stack([objective, loss.critic_coeff * reduced(distance), bonus])

    @torch.no_grad()
    def _targets(
        self, steps: TensorDictBase, value: torch.Tensor, log_ratio: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages and targets of the values, ``[n, T]`` each as all here."""
        keys, after = self.loss.tensor_keys, steps.get("next")
        done = after.get(keys.done)
        terminated = after.get(keys.terminated, done).squeeze(-1)
        done, reward = done.squeeze(-1), after.get(keys.reward).squeeze(-1)
        next_value = self._next_value(after, value, done)
        return vtrace_targets(log_ratio, value, next_value, reward, done, terminated, **self._vtrace)

    def _next_value(self, after: TensorDictBase, value: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
        next_value = torch.cat([value[:, 1:], torch.empty_like(value[:, :1])], dim=1)
        cut = done.clone()  # where no next step has the observation
        cut[:, -1] = True
        tensors: Tensors = {key: after.get(key)[cut] for key in read_first(self._critic)}
        call(self._critic, tensors)
        next_value[cut] = tensors[self.loss.tensor_keys.value].squeeze(-1)
        return next_value


def _check(loss: Any) -> None:
    check_class(loss, A2CLoss)
    refuse_unknown(
        {
            "advantage_norm": loss.advantage_norm is not None,
            "clip_value": loss.clip_value is not None,
            "critic_coeff=None": loss.critic_coeff is None,
            "reduction": loss.reduction not in ("mean", "sum"),
        }
    )
