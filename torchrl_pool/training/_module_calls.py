"""The networks below a module, as they are called in a policy that is taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from torchrl_pool._collecting.direct_policy import NetworkCall, parts_of
from torchrl_pool._collecting.direct_policy.networks import Recurrent
from torchrl_pool._env.specs import Key
from torchrl_pool.training._sequences import SequenceCall

Tensors: TypeAlias = "dict[Key, Tensor]"
Call: TypeAlias = NetworkCall | SequenceCall


# Of pictures: what a convolution makes of more of them does not stay in a processor's cache.
_PIECE_BYTES = 1 << 23


def networks_of(module: Any, sequence_length: int = 1) -> list[Call]:
    """The networks below a module in the order of their calls.

    Args:
        module: of :class:`~tensordict.nn.TensorDictModule`, ``LSTMModule`` and ``GRUModule``.
        sequence_length: rows after which memories begin with the next row's states.

    Raises:
        TypeError: a module that is not made of these.
    """
    calls: list[Call] = []
    for part in parts_of(module):
        if isinstance(part.step, Recurrent):
            calls.append(SequenceCall(part.step, sequence_length))
            continue
        if not isinstance(part.step, NetworkCall) or not isinstance(part.step.network, nn.Module):
            why = f" ({part.why_not})" if part.why_not else ""
            raise TypeError(f"expected TensorDictModules around networks, got {part.name}{why}")
        calls.append(part.step)
    return calls


def call(networks: Iterable[Call], tensors: Tensors) -> None:
    """Calls networks one after the other, each with what is in the dict, which gets what they return."""
    for network in networks:
        network(tensors)


def called_in_pieces(
    networks: Sequence[Call],
    tensors: Tensors,
    out_keys: Iterable[Key],
    sequence_length: int = 1,
    rows: int = 4096,
) -> Tensors:
    """What networks return for all rows, but with some rows at a time: what they make on the way stays small.

    Args:
        networks: in the order of their calls.
        tensors: what they read ``[all rows, …]``: sequence after sequence.
        out_keys: of what is kept.
        sequence_length: rows that stay together.
        rows: of a piece, at most; whole sequences, at least one.
    """
    found: dict[Key, list[Tensor]] = {key: [] for key in out_keys}
    widest = max(column[:1].numel() * column.element_size() for column in tensors.values())
    rows = min(rows, _PIECE_BYTES // max(widest, 1))
    rows = max(rows // sequence_length, 1) * sequence_length
    for piece in zip(*[torch.split(column, rows) for column in tensors.values()], strict=True):
        part: Tensors = dict(zip(tensors, piece, strict=True))
        call(networks, part)
        for key, parts in found.items():
            parts.append(part[key])
    return {key: torch.cat(parts) for key, parts in found.items()}


def with_critic(policy: Iterable[Call], critic: Iterable[Call]) -> list[Call]:
    """A policy's calls and then a critic's, but for those that the policy makes, too: of a common trunk."""

    def what(one: Call) -> object:
        return id(one.network), tuple(one.in_keys), tuple(one.out_keys)

    calls = list(policy)
    made = set(map(what, calls))
    return [*calls, *(one for one in critic if what(one) not in made)]
