"""Learning from sequences: the rows of a minibatch, and memories that begin anew where episodes do."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDictBase
from torch import nn

from torchrl_pool._collecting.direct_policy.networks import Recurrent
from torchrl_pool._collecting.direct_policy.values import Values
from torchrl_pool._env.arguments import check_int


class SequenceCall:
    """``LSTMModule`` and ``GRUModule`` in recurrent mode: rows are sequences of one length, in their order.

    TorchRL's modules split a batch where episodes end, and pad the parts. Here time goes on for all sequences
    together: torch's own cell runs over the steps up to the next one at which any of them begins an episode,
    whose states are then zeroed. Only the states of a sequence's first row are read.

    Args:
        step: the module's step in collecting.
        length: rows of a sequence.

    Raises:
        TypeError: a module with a cell of its own.
    """

    def __init__(self, step: Recurrent, length: int) -> None:
        if step.cell is None:
            raise TypeError("expected an LSTMModule or GRUModule around torch.nn's, not in recurrent mode")
        self.network: nn.RNNBase = step.cell
        self.in_keys, self.out_keys = step.in_keys, step.out_keys
        self.length = length

    def __call__(self, values: Values) -> None:
        features, *states, is_init = (values[key] for key in self.in_keys)
        features = features.unflatten(0, (-1, self.length))
        begins = is_init.reshape(-1, self.length)
        carried = [state[:: self.length].transpose(0, 1) for state in states]
        starts = [0, *(1 + begins[:, 1:].any(0).nonzero().squeeze(-1)).tolist()]
        lengths = [after - before for before, after in zip(starts, [*starts[1:], self.length], strict=True)]
        outputs = []
        for start, part in zip(starts, features.split(lengths, 1), strict=True):
            goes_on = ~begins[:, start].reshape(1, -1, 1)
            carried = [(state * goes_on).contiguous() for state in carried]
            output, after = self.network(part, tuple(carried) if len(carried) > 1 else carried[0])
            carried = list(after) if isinstance(after, tuple) else [after]
            outputs.append(output)
        values[self.out_keys[0]] = torch.cat(outputs, 1).flatten(0, 1)


def minibatches(
    num_rows: int, size: int, sequence_length: int = 1, device: torch.device | str | None = None
) -> Iterator[torch.Tensor]:
    """All rows of a batch in random order, a minibatch after the other; sequences stay together.

    Args:
        num_rows: rows of the batch, sequence after sequence: a multiple of ``sequence_length``.
        size: rows of a minibatch, rounded down to whole sequences, and at least one sequence.
        sequence_length: rows of a sequence.
        device: of the indices, and of the batch; None: torch's default.

    Yields:
        Indices of rows, int64 ``[size]``; the last minibatch holds the rows that are left.

    Raises:
        ValueError: rows that do not make whole sequences, or a number that is not positive.

    Examples:
        >>> [len(indices) for indices in minibatches(24, 8, sequence_length=4)]
        [8, 8, 8]
        >>> rows = next(minibatches(24, 8, sequence_length=4))
        >>> (rows[1:4] - rows[:3]).tolist()
        [1, 1, 1]
    """
    for name, number in (("num_rows", num_rows), ("size", size), ("sequence_length", sequence_length)):
        check_int(name, number, minimum=1)
    _check_whole("num_rows", num_rows, sequence_length)
    return _shuffled_sequences(num_rows, size, sequence_length, device)


def _shuffled_sequences(
    num_rows: int, size: int, sequence_length: int, device: torch.device | str | None
) -> Iterator[torch.Tensor]:
    firsts = torch.randperm(num_rows // sequence_length, device=device) * sequence_length
    rows = (firsts.unsqueeze(1) + torch.arange(sequence_length, device=device)).reshape(-1)
    yield from torch.split(rows, max(size // sequence_length, 1) * sequence_length)


def check_trajectories(batch: TensorDictBase, sequence_length: int = 1) -> None:
    """Checks that a batch is ``[N, T]``, and that no sequence holds steps of two envs.

    Raises:
        ValueError: a batch of other dimensions, or whose T is no multiple of ``sequence_length``.
    """
    if batch.ndim != 2 or "time" in batch.names[:1]:
        names = f" with the names {batch.names}" if any(batch.names) else ""
        raise ValueError(f"batch: expected [N, T], time last, got {list(batch.shape)}{names}")
    check_int("sequence_length", sequence_length, minimum=1)
    _check_whole("batch: T", batch.shape[1], sequence_length)


def _check_whole(what: str, rows: int, sequence_length: int) -> None:
    if rows % sequence_length:
        raise ValueError(f"{what}: expected a multiple of sequence_length ({sequence_length}), got {rows}")
