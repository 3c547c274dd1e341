"""One update of PPO: ClipPPOLoss's numbers from plain tensors, its gradients, and the optimiser's step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.objectives import ClipPPOLoss

from torchrl_pool._collecting.direct_policy import read_first
from torchrl_pool._collecting.direct_policy.distributions import density_of
from torchrl_pool.training._flat_parameters import FlatUpdate, shrinking
from torchrl_pool.training._module_calls import Tensors, call, called_in_pieces, networks_of, with_critic
from torchrl_pool.training._sequences import check_trajectories
from torchrl_pool.training._traced_once import TracedOnce, refuse_counting

ADVANTAGE = 2  # its place among the columns
DISTANCES: dict[str, Callable[..., torch.Tensor]] = {
    "l1": nn.functional.l1_loss,
    "l2": nn.functional.mse_loss,
    "smooth_l1": nn.functional.smooth_l1_loss,
}


class PPOUpdate(FlatUpdate):
    """Does with tensors and indices what ``loss(minibatch)``, ``backward()`` and ``step()`` do.

    Two thirds of a small network's update with :class:`~torchrl.objectives.ClipPPOLoss` are not arithmetic:
    a tensordict for each minibatch, modules made functional, distributions built and checked, a dozen
    figures for a log. Here the batch is laid out once (:meth:`columns`), a minibatch is a tensor of indices,
    and the networks that the loss holds are called as they are. Losses and gradients are those of the loss up
    to the rounding of sums.

    The parameters are made views of one tensor (:func:`~torchrl_pool.training.flatten_parameters`), so this
    comes before the collector is built, and after ``to``. Those that do not learn (``requires_grad=False``)
    are left alone. Gradients are set to zero here: no ``zero_grad()`` is needed.

    Args:
        loss: the loss. Its coefficients, keys, clipping and normalisation are followed, also where they
            change later (a clip range that is annealed in ``loss.clip_epsilon``).
        optimizer: makes the optimiser of a list with that one tensor, as ``partial(Adam, lr=3e-4)`` does.
        max_grad_norm: the gradients' largest norm, all parameters together; None: any.
        compile: whether ``torch.compile`` makes one graph of everything but the optimiser's step, for
            minibatches of one size from batches of one size; others are not compiled. Takes tens of seconds
            of a CPU, at the first update, which small networks win back in some 10,000 updates.
        sequence_length: steps that an ``LSTMModule`` or ``GRUModule`` goes through from the state that the
            collector stored with the first of them; it is zeroed where an episode begins in between.
            A minibatch is then made of whole sequences, see :func:`~torchrl_pool.training.minibatches`.
        gradient_accumulation: parts of a minibatch, of whole sequences, that are looked at one after the
            other: networks keep what gradients need of one part at a time. The gradient is the minibatch's
            up to the rounding of sums; advantages are normalised over all of it.

    Raises:
        TypeError: networks that are not in TensorDictModules, or a distribution that is none of
            ``IndependentNormal``, ``TanhNormal``, ``Categorical`` and ``OneHotCategorical``.
        ValueError: an unsupported option of the loss, or an entropy bonus for ``TanhNormal``,
            whose entropy has no formula; ``compile`` with sequences.
        RuntimeError: by a call, where a parameter was moved, replaced, frozen or freed since.

    Examples:
        >>> from functools import partial
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> from torchrl.modules import ProbabilisticActor, OneHotCategorical, ValueOperator
        >>> logits = TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"])
        >>> draw = {"distribution_class": OneHotCategorical, "return_log_prob": True}
        >>> actor = ProbabilisticActor(logits, in_keys=["logits"], **draw)
        >>> loss = ClipPPOLoss(actor, ValueOperator(nn.Linear(4, 1), in_keys=["observation"]))
        >>> update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-3, fused=True), max_grad_norm=0.5)
        >>> batch = actor(TensorDict({"observation": torch.randn(8, 16, 4)}, batch_size=[8, 16]))
        >>> batch["advantage"], batch["value_target"] = torch.randn(8, 16, 1), torch.zeros(8, 16, 1)
        >>> columns = update.columns(batch)
        >>> for indices in torch.randperm(batch.numel()).split(32):
        ...     losses = update(columns, indices)
        >>> sorted(losses)
        ['loss_critic', 'loss_entropy', 'loss_objective']
    """

    def __init__(
        self,
        loss: ClipPPOLoss,
        optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        *,
        max_grad_norm: float | None = None,
        compile: bool = False,
        sequence_length: int = 1,
        gradient_accumulation: int = 1,
    ) -> None:
        _check(loss)
        if compile and sequence_length > 1:
            raise ValueError("compile: expected False with sequences, whose steps depend on the data")
        self.loss, self.max_grad_norm = loss, max_grad_norm
        self._terms, self.sequence_length = _Terms(loss, sequence_length), sequence_length
        self.gradient_accumulation = gradient_accumulation
        super().__init__(self._terms, optimizer)
        self._compiled = TracedOnce(self._gradient, compile=True) if compile else None

    @torch.no_grad()
    def columns(self, batch: TensorDictBase) -> list[torch.Tensor]:
        """The tensors ``[N · T, …]`` of a batch that updates read; views of the batch where possible.

        Log-probabilities that the batch lacks are computed and written to it: the networks must be those that
        chose its actions.

        Args:
            batch: ``[N, T]``, with advantages and value targets, as
                :func:`~torchrl_pool.training.estimate_advantages` writes them.

        Returns:
            Tensors ``[N · T, …]`` for :meth:`__call__`.

        Raises:
            ValueError: with sequences, a batch whose T is no multiple of ``sequence_length``.
        """
        if self.sequence_length > 1:
            check_trajectories(batch, self.sequence_length)
        keys, rows, terms = self.loss.tensor_keys, batch.reshape(-1), self._terms
        action, more = terms.density.prepared(rows.get(keys.action))
        observed = [rows.get(key) for key in terms.observed]
        if keys.sample_log_prob in rows.keys(True):
            before = rows.get(keys.sample_log_prob) + more
        else:
            before = self._log_prob(dict(zip(terms.observed, observed, strict=True)), action)
            batch.set(keys.sample_log_prob, (before - more).view(batch.shape))
        columns = [action, before, rows.get(keys.advantage).squeeze(-1)]
        columns.append(rows.get(keys.value_target).squeeze(-1))
        if terms.clips_value:
            columns.append(rows.get(keys.value).squeeze(-1))
        return [column.contiguous() for column in [*columns, *observed]]

    def _log_prob(self, observed: Tensors, action: torch.Tensor) -> torch.Tensor:
        density = self._terms.density
        found = called_in_pieces(
            self._terms.policy_calls, observed, density.keys.values(), self.sequence_length
        )
        return density.log_prob(found, action)

    def __call__(self, columns: list[torch.Tensor], indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Updates the networks with some rows of the columns.

        Args:
            columns: from :meth:`columns`.
            indices: int64 ``[minibatch]``, at least one; with sequences, all rows of each.

        Returns:
            ``"loss_objective"``, ``"loss_critic"`` and ``"loss_entropy"``, detached, as the loss names them.

        Raises:
            ValueError: no indices, or fewer than whole sequences have.
        """
        if not len(indices) or len(indices) % self.sequence_length:
            raise ValueError(
                f"indices: expected a positive multiple of sequence_length ({self.sequence_length}), "
                f"got {len(indices)}"
            )
        grad = self._gradient_memory()
        inputs = [indices, *columns, *self._terms.coefficients()]
        if self._compiled is not None:
            gradient, losses = self._compiled(self._flat.detach(), *inputs)
            grad.copy_(gradient)
        else:
            grad.zero_()
            losses = torch.zeros(3, device=grad.device)
            for share, part in self._parts(*inputs):
                terms = self._terms(*part)
                terms.backward(torch.full_like(terms, share))
                losses.add_(terms.detach(), alpha=share)
            if self.max_grad_norm is not None:
                grad.mul_(shrinking(grad, self.max_grad_norm))
        self.optimizer.step()
        objective, critic, entropy = losses.unbind()
        return {"loss_objective": objective, "loss_critic": critic, "loss_entropy": entropy}

    @torch.no_grad()
    def diagnostics(self, columns: list[torch.Tensor], num_rows: int = 256) -> dict[str, float]:
        """How far the policy has gone from the one that chose the actions, and what the critic explains.

        Args:
            columns: from :meth:`columns`, ``[N · T, …]`` each.
            num_rows: how many of them are looked at, or up to twice as many, spread over the batch; all,
                where they are sequences.

        Returns:
            ``"kl"``: (r - 1) - log r on average, for r the ratio of the probabilities (Schulman 2020);
            ``"clip_fraction"``; ``"entropy"``, NaN where it has no formula; ``"explained_variance"`` of the
            value targets by the values of today's critic.
        """
        stride = max(1, len(columns[0]) // num_rows) if self.sequence_length == 1 else 1
        action, before, _, target, *rest = [column[::stride] for column in columns]
        terms, density = self._terms, self._terms.density
        observed: Tensors = dict(zip(terms.observed, rest[terms.clips_value :], strict=True))
        needed = [*density.keys.values(), terms.value_key]
        found = called_in_pieces(terms.calls, observed, needed, self.sequence_length)
        log_ratio = density.log_prob(found, action) - before
        entropy = density.entropy(found) if density.has_entropy else torch.full_like(log_ratio, torch.nan)
        error = target - found[terms.value_key].squeeze(-1)
        low, high = self.loss._clip_bounds
        clipped = (log_ratio < low) | (log_ratio > high)
        return {
            "kl": (log_ratio.exp() - 1 - log_ratio).mean().item(),
            "clip_fraction": clipped.float().mean().item(),
            "entropy": entropy.mean().item(),
            "explained_variance": 1 - (error.var() / target.var().clamp_min(1e-8)).item(),
        }

    def _parts(
        self, indices: torch.Tensor, *inputs: torch.Tensor
    ) -> Iterator[tuple[float, list[torch.Tensor]]]:
        """Each part's share of a minibatch, and its inputs for the terms."""
        rest = list(inputs)
        # One alone has no deviation; one step of several agents has.
        if self._terms.normalizes and len(indices) * rest[ADVANTAGE][0].numel() > 1:
            std, mean = torch.std_mean(rest[ADVANTAGE].index_select(0, indices))
            rest[ADVANTAGE] = (rest[ADVANTAGE] - mean) / std.clamp_min(torch.finfo(torch.float).resolution)
        sequences = len(indices) // self.sequence_length
        size = math.ceil(sequences / self.gradient_accumulation) * self.sequence_length
        for part in torch.split(indices, size):
            yield len(part) / len(indices), [part, *rest]

    def _gradient(self, flat: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The clipped gradient of all parameters as one tensor, and the losses: what is compiled."""
        refuse_counting(self._terms)

        def total(
            flat: torch.Tensor, share: float, part: list[torch.Tensor]
        ) -> tuple[torch.Tensor, torch.Tensor]:
            weights = torch.split(flat, [one.numel() for one in self._own.values()])
            own = {
                name: weight.view(one.shape)
                for (name, one), weight in zip(self._own.items(), weights, strict=True)
            }
            losses = share * torch.func.functional_call(self._terms, own, tuple(part))
            return losses.sum(), losses.detach()

        found = [torch.func.grad(total, has_aux=True)(flat, *part) for part in self._parts(*inputs)]
        gradient, losses = (torch.stack(parts).sum(0) for parts in zip(*found, strict=True))
        if self.max_grad_norm is not None:
            gradient = gradient * shrinking(gradient, self.max_grad_norm)
        return gradient, losses


class _Terms(nn.Module):
    """The three terms of a loss as a function of tensors; its parameters are those of the networks."""

    def __init__(self, loss: ClipPPOLoss, sequence_length: int) -> None:
        super().__init__()
        actor, critic = loss.actor_network, loss.critic_network
        self.density = density_of(actor.module[-1])
        self.has_bonus = bool(loss.entropy_bonus and loss.entropy_coeff)
        if self.has_bonus and not self.density.has_entropy:
            raise ValueError("loss: expected no entropy bonus for TanhNormal, whose entropy has no formula")
        self.clips_value = loss.clip_value is not None
        self.normalizes, self.distance = loss.normalize_advantage, DISTANCES[loss.loss_critic_type]
        self.value_key = loss.tensor_keys.value
        self.__dict__["loss"] = loss  # not a module of this one: its parameters are those of the networks
        clip = ["clip_epsilon_low", "clip_epsilon_high"] if loss._asymmetric_clip else ["clip_epsilon"] * 2
        self._coefficients = [*clip, "critic_coeff", "entropy_coeff", *["clip_value"][: self.clips_value]]
        policy = list(actor.module)[:-1]
        self.policy_calls = [one for part in policy for one in networks_of(part, sequence_length)]
        # A trunk that both have is called once.
        self.calls = with_critic(self.policy_calls, networks_of(critic, sequence_length))
        self.networks = nn.ModuleList(one.network for one in self.calls)
        self.observed: list[Any] = read_first(self.calls)

    def coefficients(self) -> list[torch.Tensor]:
        """What may change between updates, as tensors: a graph that is compiled takes them as inputs."""
        return [getattr(self.loss, name) for name in self._coefficients]

    def forward(self, indices: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
        """Objective, critic and entropy, weighted: ``[3]``.

        Args:
            indices: the rows.
            inputs: columns, with advantages as they are to be learned from, and the coefficients.
        """
        count = len(self._coefficients)
        columns, coefficients = inputs[:-count], inputs[-count:]
        shrunk, grown, critic_coeff, entropy_coeff, *clip_value = coefficients
        action, before, advantage, target, *rest = [column.index_select(0, indices) for column in columns]
        tensors: Tensors = dict(zip(self.observed, rest[self.clips_value :], strict=True))
        call(self.calls, tensors)
        log_ratio = self.density.log_prob(tensors, action) - before
        gain = torch.minimum(
            log_ratio.exp() * advantage, log_ratio.clamp((-shrunk).log1p(), grown.log1p()).exp() * advantage
        )
        value = tensors[self.value_key].squeeze(-1)
        error = self.distance(value, target, reduction="none")
        if self.clips_value:
            near = rest[0] + (value - rest[0]).clamp(-clip_value[0], clip_value[0])
            error = torch.maximum(error, self.distance(near, target, reduction="none"))
        objective, critic = -gain.mean(), critic_coeff * error.mean()
        bonus = torch.zeros_like(critic)
        if self.has_bonus:
            bonus = -entropy_coeff * self.density.entropy(tensors).mean()
        return torch.stack([objective, critic, bonus])


def _check(loss: Any) -> None:
    instead = "without PPOUpdate any loss is learned from: loss(minibatch), backward(), optimizer.step()"
    if type(loss) is not ClipPPOLoss:  # a subclass may change what is not followed here
        raise TypeError(f"loss: expected ClipPPOLoss itself, got {type(loss).__name__}; {instead}")
    are_set = {
        "delay_actor": loss.delay_actor,
        "max_importance_ratio": loss.max_importance_ratio is not None,
        "advantage_norm": loss.advantage_norm is not None,
        "separate_losses": loss.separate_losses,
        "normalize_advantage_exclude_dims": loss.normalize_advantage_exclude_dims,
        "entropy_coeff, as a mapping": loss._entropy_coeff_map is not None,
        "critic_coeff=None or 0": not loss._has_critic,
        "reduction": loss.reduction != "mean",
    }
    unknown = [name for name, is_set in are_set.items() if is_set]
    if unknown:
        raise ValueError(f"loss: expected none of these options: {', '.join(unknown)}; {instead}")
