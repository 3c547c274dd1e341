"""Generalised advantage estimation over a whole batch, with each observation's value asked for once."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.objectives.value import GAE

from torchrl_pool.training._module_calls import Tensors, called_in_pieces, networks_of
from torchrl_pool.training._sequences import check_trajectories


@torch.no_grad()
def estimate_advantages(
    gae: GAE, batch: TensorDictBase, chunk: int = 4096, sequence_length: int = 1
) -> TensorDictBase:
    """Writes what ``gae(batch)`` writes, from a batch ``[N, T]`` of a collector.

    The observation after a step is the one before the next step, but at the end of the batch and of an
    episode. So the critic is asked T times for each env, and once more where a trajectory is cut, instead of
    2 T times, and the recursion runs over plain tensors. The numbers are those of ``gae`` up to the rounding
    of sums: 1e-5 of their size.

    Args:
        gae: its ``gamma``, ``lmbda``, ``value_network``, keys, and ``average_gae`` are followed.
        batch: with names as a collector gives them, where entries under ``"next"`` are the next step's.
        chunk: rows that the critic is given at a time; of pictures, no more than 8 MiB.
        sequence_length: steps that a memory goes through from the state that the collector stored with the
            first of them, as in :class:`~torchrl_pool.training.PPOUpdate`; 1: each step's own is read.

    Returns:
        The batch with ``"advantage"``, ``"value_target"`` and ``"state_value"``, ``[N, T, 1]``, or
        ``[N, T, agents, 1]``, as the reward is, under the keys of ``gae``, and ``("next", "state_value")``.

    Raises:
        TypeError: an estimator of another kind, or a critic that is not made of TensorDictModules.
        ValueError: an option of ``gae`` that is not supported (``shifted``, ``auto_reset_env``,
            ``group_key``, ``differentiable``), a batch of other dimensions, or one whose T is no multiple of
            ``sequence_length``.

    Examples:
        >>> from tensordict import TensorDict
        >>> from torchrl.modules import ValueOperator
        >>> gae = GAE(gamma=0.99, lmbda=0.95, value_network=ValueOperator(torch.nn.Linear(3, 1)))
        >>> steps = torch.randn(2, 6, 3)
        >>> never = torch.zeros(2, 5, 1, dtype=torch.bool)
        >>> after = {"observation": steps[:, 1:], "reward": torch.ones(2, 5, 1)}
        >>> after |= {"done": never, "terminated": never}
        >>> batch = TensorDict({"observation": steps[:, :-1], "next": after}, batch_size=[2, 5])
        >>> estimate_advantages(gae, batch)["advantage"].shape
        torch.Size([2, 5, 1])
    """
    _check(gae)
    check_trajectories(batch, sequence_length)
    keys, after = gae.tensor_keys, batch.get("next")
    reward, done = after.get(keys.reward), after.get(keys.done)
    terminated = after.get(keys.terminated, done)
    value, next_value = values_of(gae, batch, done, chunk, sequence_length)
    # [N, T] each: small tensors are what the recursion over T is made of.
    gamma, lmbda = gae.gamma.item(), gae.lmbda.item()
    delta = (reward + gamma * next_value * ~terminated - value).squeeze(-1)
    discount = (gamma * lmbda * ~done).squeeze(-1)
    advantages = []
    advantage = torch.zeros_like(delta[:, 0])
    for at_step, factor in zip(delta.unbind(1)[::-1], discount.unbind(1)[::-1], strict=True):
        advantage = torch.addcmul(at_step, advantage, factor)
        advantages.append(advantage)
    estimated = torch.stack(advantages[::-1], dim=1).unsqueeze(-1)
    target = estimated + value
    if gae.average_gae:
        estimated = (estimated - estimated.mean()) / estimated.std().clamp_min(1e-4)
    batch.set(keys.advantage, estimated)
    batch.set(keys.value_target, target)
    batch.set(keys.value, value)
    batch.set(("next", keys.value), next_value)
    return batch


def _check(gae: GAE) -> None:
    if not isinstance(gae, GAE):
        raise TypeError(f"gae: expected a GAE, got {type(gae).__name__}: call the estimator itself")
    options = ("shifted", "auto_reset_env", "group_key", "differentiable")
    unknown = [option for option in options if getattr(gae, option, None)]
    if unknown or gae.gamma.numel() != 1 or gae.lmbda.numel() != 1:
        raise ValueError(
            f"gae: expected one gamma and lmbda, and none of {', '.join(options)}, got {unknown}"
        )


def values_of(
    estimator: Any, batch: TensorDictBase, done: torch.Tensor, chunk: int, sequence_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The critic's values ``[N, T, 1]`` of the steps' observations, and of those that follow them."""
    key = estimator.tensor_keys.value
    in_keys: list[Any] = list(estimator.value_network.in_keys)

    def values(source: TensorDictBase, length: int) -> torch.Tensor:
        networks = networks_of(estimator.value_network, length)
        tensors: Tensors = {in_key: source.get(in_key) for in_key in in_keys}
        return called_in_pieces(networks, tensors, [key], length, chunk)[key]

    value = values(batch.select(*in_keys).reshape(-1), sequence_length).reshape(done.shape)
    next_value = torch.cat([value[:, 1:], torch.empty_like(value[:, :1])], dim=1)
    # No next step has the observation where an agent ends, or the env: a limit of steps is the env's alone.
    cut = done.flatten(2).any(-1) | batch.get(("next", "done"), done).flatten(2).any(-1)
    cut[:, -1] = True
    next_value[cut] = values(batch.get("next").select(*in_keys)[cut], 1)
    return value, next_value
