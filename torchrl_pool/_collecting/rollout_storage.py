"""The batches of a rollout: allocated once, written in place at every step, and then the consumer's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.buffers import tensor_memory
from torchrl_pool._env.specs import Key, NestedSizes
from torchrl_pool._env.tensors import PlainEntries, as_it_lies, check_memory, leaf_keys, unsafe_tensordict
from torchrl_pool._env.transfers import PackedLayout, Uploads

RowType: TypeAlias = "tuple[torch.Size, torch.dtype]"  # one env's at one step


class RolloutBatch:
    """Fresh tensors ``[N, T, *shape]`` for one rollout."""

    def __init__(self, storage: RolloutStorage) -> None:
        self._storage = storage
        self._sent = 0  # steps
        by_step = {}
        if storage.uploads is not None:
            size = storage.num_steps, storage.by_step.num_bytes
            self._steps = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
            self._steps_on_device = storage.uploads.begin(self._steps)
            by_step = storage.by_step.of(self._steps)
        fresh, _ = storage.memory.make()
        self.tensors: dict[Key, torch.Tensor] = {
            key: by_step[key].transpose(0, 1) if key in by_step else fresh[key] for key in storage.tensors
        }

    def clear_from(self, step: int) -> None:
        """Zeros in all steps from this one on, and no trajectory, as in a rollout that was cut short."""
        for key, tensor in self.tensors.items():
            tensor[:, step:] = -1 if key == ("collector", "traj_ids") else 0

    def send(self, num_steps: int) -> None:
        """Lets the first steps go up to the device, which all envs have made, if the batch shall go there."""
        uploads = self._storage.uploads
        if uploads is not None:
            for step in range(self._sent, num_steps):
                uploads.send(self._steps_on_device[step], self._steps[step])
            self._sent = num_steps

    def _sent_up(self) -> dict[Key, torch.Tensor]:
        """What has gone up step by step, as the batch has it."""
        uploads, by_step = self._storage.uploads, self._storage.by_step
        if uploads is None:
            return {}
        self.send(self._storage.num_steps)
        uploads.finish(self._steps_on_device)
        steps = by_step.of(self._steps_on_device)
        return {key: value.transpose(0, 1).contiguous() for key, value in steps.items()}

    def as_tensordict(self, device: torch.device | None) -> TensorDict:
        """The batch ``[N, T]``, on this device (None: where it is, in a tensordict without a device)."""
        storage = self._storage
        result = unsafe_tensordict(
            {**self.tensors, **self._sent_up()},
            torch.Size([storage.num_envs, storage.num_steps]),
            None,
            [None, "time"],
            nested=True,
            nested_sizes=storage.nested_sizes,
        )
        return result if device is None else result.to(device, non_blocking=True)


class RolloutRows:
    """Consecutive envs' part in a batch: what is copied there at a step, and where their rows lie.

    Args:
        batch: the batch.
        storage: what it holds.
        first: the first of the envs.
        num_envs: how many they are.
    """

    def __init__(self, batch: RolloutBatch, storage: RolloutStorage, first: int, num_envs: int) -> None:
        self._storage, self._num_envs = storage, num_envs

        def place_of(key: Key | None, env_stride: int, step_stride: int) -> _core.RolloutColumn:
            address = 0 if key is None else batch.tensors[key].data_ptr() + first * env_stride
            return address, env_stride, step_stride

        outputs = [
            (address + first * row_bytes, row_bytes, 0) for address, row_bytes in storage.hidden_columns
        ]
        for position, column in zip(storage.positions, storage.output_columns, strict=True):
            outputs[position] = place_of(*column)
        self.core = _core.RolloutRows(
            first=first,
            count=num_envs,
            outputs=outputs,
            recorded=list(starmap(place_of, storage.recorded_columns)),
            recorded_bytes=storage.recorded_bytes,
            plain_recorded=storage.plain_recorded.core,
            owner=batch,
        )
        """Where the executor writes these envs' rows."""

    def sources(self, root: TensorDictBase, *, zeros: bool) -> tuple[list[torch.Tensor], list[int]]:
        """The recorded entries of a root as contiguous tensors, and their addresses.

        Args:
            root: what a step begins with, on the CPU.
            zeros: whether zeros stand for entries that the root lacks.

        Raises:
            KeyError, ValueError: an entry that is not there, or of another shape or dtype.
        """
        tensors, addresses = [], []
        for key, (row, dtype) in self._storage.recorded.items():
            shape = torch.Size((self._num_envs, *row))
            value: Any = root._get_str(key, None) if type(key) is str else root.get(key, None)
            if value is None:
                if not zeros:
                    raise KeyError(f"expected the policy to write {key!r} at every step, as it did at first")
                value = torch.zeros(shape, dtype=dtype, device="cpu")
            if value.shape != shape or value.dtype is not dtype:
                raise ValueError(
                    f"{key!r}: expected {dtype} {list(shape)} at every step, as at first, "
                    f"got {value.dtype} {list(value.shape)}"
                )
            value = as_it_lies(value)
            check_memory(key, value)
            tensors.append(value)
            addresses.append(value.data_ptr())
        return tensors, addresses


class RolloutStorage:
    """What the batches of a rollout hold.

    Args:
        num_envs: N.
        num_steps: T.
        outputs: what the pool writes at a step, in its order: under ``"next"`` in a batch.
        filled_in: what is written there at the end of a rollout.
        recorded: everything else, which is copied from the root that a step begins with.
        left_out: entries that the batches do not hold.
        pin_memory: whether the batches are pinned.
        nested_sizes: what batch sizes of nested tensordicts have besides ``[N, T]``.
        uploads: what carries steps to a device while others are made; None: batches stay, or go in one piece.
        positions: the column of each output among all that the executor writes.
        hidden_columns: of each of these, where nobody sees it, the address of row 0 and the bytes of a row.
    """

    def __init__(
        self,
        num_envs: int,
        num_steps: int,
        outputs: Mapping[Key, RowType],
        filled_in: Mapping[Key, RowType],
        recorded: Mapping[Key, RowType],
        left_out: Collection[Key],
        pin_memory: bool,
        nested_sizes: NestedSizes,
        positions: Sequence[int],
        hidden_columns: Sequence[tuple[int, int]],
        uploads: Uploads | None = None,
    ) -> None:
        self.num_envs, self.num_steps = num_envs, num_steps
        self.nested_sizes = nested_sizes
        self.positions, self.hidden_columns = positions, hidden_columns
        written = {in_next(key): row for key, row in outputs.items() if in_next(key) not in left_out}
        self.recorded = dict(recorded)
        self.plain_recorded = PlainEntries(
            [(key, dtype, torch.Size((num_envs, *shape))) for key, (shape, dtype) in recorded.items()]
        )
        entries = {**self.recorded, **filled_in, **written}
        size = (num_envs, num_steps)
        self.tensors = {key: (torch.Size((*size, *shape)), dtype) for key, (shape, dtype) in entries.items()}
        """Shape and dtype of each tensor of a batch."""
        self._places = frozenset([*entries, *left_out])
        self.has_private = any(
            part.startswith("_") for key in entries for part in ((key,) if isinstance(key, str) else key)
        )
        """Whether batches hold entries whose names begin with an underscore."""
        self.uploads = uploads
        # A step's rows lie together and go up in one piece, but for what is known at the end of a batch only.
        goes_up = {} if uploads is None else {**self.recorded, **written}
        goes_up.pop(("collector", "traj_ids"), None)
        self.by_step = PackedLayout(
            {key: (torch.Size([num_envs, *shape]), dtype) for key, (shape, dtype) in goes_up.items()}
        )

        self.memory = tensor_memory(
            {
                key: torch.empty(shape, dtype=dtype, device="meta")
                for key, (shape, dtype) in self.tensors.items()
                if key not in self.by_step.offsets
            },
            pin_memory=pin_memory,
        )
        """What makes the tensors of a batch, but for those that go up step by step."""

        # By key, bytes from an env's row to the next env's, and from a step to the next. What a batch does
        # not get of the outputs goes to the next root instead.
        self.output_columns: list[tuple[Key | None, int, int]] = [
            (in_next(key), *self._strides(in_next(key), _row_bytes(row)))
            if in_next(key) in written
            else (None, _row_bytes(row), 0)
            for key, row in outputs.items()
        ]
        self.recorded_bytes = [_row_bytes(row) for row in recorded.values()]
        self.recorded_columns = [
            (key, *self._strides(key, size)) for key, size in zip(recorded, self.recorded_bytes, strict=True)
        ]

    def _strides(self, key: Key, row_bytes: int) -> tuple[int, int]:
        if key in self.by_step.offsets:
            return row_bytes, self.by_step.num_bytes
        return row_bytes * self.num_steps, row_bytes

    def holds(self, root: TensorDictBase) -> bool:
        """Whether all entries of a root have their place, if they shall have one."""
        return self._places.issuperset(leaf_keys(root))


def row_types(tensordict: TensorDictBase) -> dict[Key, RowType]:
    """Shape and dtype of the rows of each entry.

    Raises:
        TypeError: an entry that is no tensor, or one of a subclass.
    """
    rows: dict[Key, RowType] = {}
    for key, value in tensordict.items(include_nested=True, leaves_only=True):
        if type(value) is not torch.Tensor:
            raise TypeError(f"{key!r}: a rollout's batch holds tensors, got {type(value).__name__}")
        rows[key] = value.shape[tensordict.ndim :], value.dtype
    return rows


def _row_bytes(row: RowType) -> int:
    shape, dtype = row
    return shape.numel() * dtype.itemsize


def in_next(key: Key) -> Key:
    """The key of what a step writes, in a batch."""
    return ("next", key) if isinstance(key, str) else ("next", *key)
