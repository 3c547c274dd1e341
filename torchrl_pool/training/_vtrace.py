"""V-trace from tensors, and over a batch whose values and probabilities are asked for once."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.objectives.value import VTrace

from torchrl_pool._collecting.direct_policy.distributions import density_of
from torchrl_pool.training._advantages import values_of
from torchrl_pool.training._module_calls import Tensors, called_in_pieces, networks_of
from torchrl_pool.training._sequences import check_trajectories


@torch.no_grad()
def vtrace_targets(
    log_ratio: torch.Tensor,
    value: torch.Tensor,
    next_value: torch.Tensor,
    reward: torch.Tensor,
    done: torch.Tensor,
    terminated: torch.Tensor,
    *,
    gamma: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    lmbda: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """V-trace's advantages and targets of values (Espeholt et al. 2018), from tensors ``[N, T]``.

    They are, bit for bit, those of :func:`torchrl.objectives.value.functional.vtrace_advantage_estimate`.

    Args:
        log_ratio: log-probability of the action by today's weights, less that by those which chose it.
        value: of the observation, by today's weights.
        next_value: of the observation that followed, also where an episode ended.
        reward: of the step.
        done: where an episode ends.
        terminated: where nothing follows: those that a time limit ends go on with ``next_value``.
        gamma: the discount.
        rho_clip: the largest weight of a step's own error.
        c_clip: the largest weight of the errors that follow.
        lmbda: how much of the errors that follow counts.

    Returns:
        Advantages and targets, ``[N, T]`` each.

    Examples:
        >>> never = torch.zeros(1, 3, dtype=torch.bool)
        >>> zero, one = torch.zeros(1, 3), torch.ones(1, 3)
        >>> vtrace_targets(zero, zero, zero, one, never, never, gamma=0.5)[1]  # on-policy: discounted returns
        tensor([[1.7500, 1.5000, 1.0000]])
    """
    rho = log_ratio.exp()
    trusted = rho.clamp_max(rho_clip)
    discount = gamma * ~terminated
    delta = trusted * (reward + discount * next_value - value)
    trace = gamma * ~done * (lmbda * rho.clamp_max(c_clip))
    corrections = []
    correction = torch.zeros_like(delta[:, 0])
    for at_step, factor in zip(delta.unbind(1)[::-1], trace.unbind(1)[::-1], strict=True):
        correction = at_step + factor * correction
        corrections.append(correction)
    target = torch.stack(corrections[::-1], dim=1) + value
    following = torch.cat([target[:, 1:], next_value[:, -1:]], dim=1).where(~done, next_value)
    return trusted * (reward + discount * following - value), target


@torch.no_grad()
def estimate_vtrace(
    vtrace: VTrace, batch: TensorDictBase, chunk: int = 4096, sequence_length: int = 1
) -> TensorDictBase:
    """Writes V-trace's advantages and targets (Espeholt et al. 2018) into a batch ``[N, T]`` of a collector.

    It is to :class:`~torchrl.objectives.value.VTrace` what
    :func:`~torchrl_pool.training.estimate_advantages` is to GAE, but for two things. The ratios are those of
    the actions that were taken, where ``vtrace(batch)`` (TorchRL 0.14) draws other ones to ask for their
    probability. And it changes no setting of the whole process meanwhile: another thread may collect.

    Args:
        vtrace: its ``gamma``, ``rho_thresh``, ``c_thresh``, networks, keys, and ``average_adv`` are followed.
        batch: with names as a collector gives them, where entries under ``"next"`` are the next step's.
        chunk: rows that the networks are given at a time; of pictures, no more than 8 MiB.
        sequence_length: steps that a memory goes through from the state that the collector stored with the
            first of them, as in :class:`~torchrl_pool.training.PPOUpdate`; 1: each step's own is read, which
            older weights have made.

    Returns:
        The batch with ``"advantage"``, ``"value_target"`` and ``"state_value"``, ``[N, T, 1]``, under the
        keys of ``vtrace``, and ``("next", "state_value")``.

    Raises:
        TypeError: networks that are not in TensorDictModules, or a distribution that is not known.
        ValueError: an unsupported option of ``vtrace``, a batch of other dimensions, or one whose
            T is no multiple of ``sequence_length``.

    Examples:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> from torchrl.modules import ProbabilisticActor, OneHotCategorical, ValueOperator
        >>> logits = TensorDictModule(torch.nn.Linear(3, 2), ["observation"], ["logits"])
        >>> draw = {"distribution_class": OneHotCategorical, "return_log_prob": True}
        >>> actor = ProbabilisticActor(logits, in_keys=["logits"], **draw)
        >>> critic = ValueOperator(torch.nn.Linear(3, 1), in_keys=["observation"])
        >>> vtrace = VTrace(gamma=0.99, actor_network=actor, value_network=critic)
        >>> steps = torch.randn(2, 6, 3)
        >>> never = torch.zeros(2, 5, 1, dtype=torch.bool)
        >>> after = {"observation": steps[:, 1:], "reward": torch.ones(2, 5, 1)}
        >>> after |= {"done": never, "terminated": never}
        >>> batch = actor(TensorDict({"observation": steps[:, :-1], "next": after}, batch_size=[2, 5]))
        >>> estimate_vtrace(vtrace, batch)["advantage"].shape
        torch.Size([2, 5, 1])
    """
    keys, after = vtrace.tensor_keys, batch.get("next")
    check_trajectories(batch, sequence_length)
    options = ("shifted", "group_key", "differentiable")
    unknown = [option for option in options if getattr(vtrace, option, None)]
    if unknown:
        raise ValueError(f"vtrace: expected none of these unsupported options: {', '.join(unknown)}")
    reward, done = after.get(keys.reward), after.get(keys.done)
    terminated = after.get(keys.terminated, done)
    value, next_value = values_of(vtrace, batch, done, chunk, sequence_length)
    log_ratio = _log_ratios(vtrace, batch, chunk, sequence_length).view_as(reward)
    columns = [one.squeeze(-1) for one in (log_ratio, value, next_value, reward, done, terminated)]
    clips = {"rho_clip": vtrace.rho_thresh.item(), "c_clip": vtrace.c_thresh.item()}
    estimated = vtrace_targets(*columns, gamma=vtrace.gamma.item(), **clips)
    advantage, target = (one.unsqueeze(-1) for one in estimated)
    if vtrace.average_adv:
        advantage = (advantage - advantage.mean()) / advantage.std().clamp_min(1e-5)
    batch.set(keys.advantage, advantage)
    batch.set(keys.value_target, target)
    batch.set(keys.value, value)
    batch.set(("next", keys.value), next_value)
    return batch


def _log_ratios(vtrace: VTrace, batch: TensorDictBase, chunk: int, sequence_length: int) -> torch.Tensor:
    """Today's log-probabilities of the actions less those that they were chosen with ``[N · T]``."""
    actor: Any = vtrace.actor_network
    modules = list(actor.module)
    density = density_of(modules[-1])
    networks = [one for part in modules[:-1] for one in networks_of(part, sequence_length)]
    in_keys: list[Any] = list(actor.in_keys)
    rows = batch.select(*in_keys, *actor.out_keys, strict=False).reshape(-1)
    action, more = density.prepared(rows.get(modules[-1].out_keys[0]))
    before: torch.Tensor = rows.get(vtrace.tensor_keys.sample_log_prob) + more
    tensors: Tensors = {key: rows.get(key) for key in in_keys}
    parameters = called_in_pieces(networks, tensors, density.keys.values(), sequence_length, chunk)
    return density.log_prob(parameters, action) - before
