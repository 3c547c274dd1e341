"""Chain: native transforms as the executor runs them, with a place for each value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import Transform

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._env.tensors import PlainEntries, as_it_lies, check_memory, entries_of, entry_of
from torchrl_pool._transforms.chain_builder import ChainBuilder, TensorAddress, Value


class Chain:
    """The native part of an env's transforms.

    Values that no entry shows live in the thread that makes them, or, where a later phase or a later call
    needs them, in memory for all envs: twice where a step and the reset that follows it are both needed until
    the end of a call.
    """

    def __init__(self, builder: ChainBuilder) -> None:
        self.builder = builder
        env = builder.env
        builder = builder.copy()
        final = _one_column_each(builder)
        self.keys = list(final)
        num_pool = len(env._outputs)
        shown = {id(value): key for key, value in final.items()}
        columns: list[Value] = []
        temps: list[Value] = []
        for value in _written(builder):
            (columns if id(value) in shown or value.is_read_later else temps).append(value)
        carried = builder.carried_values
        index = {id(value): num_pool + i for i, value in enumerate([*columns, *carried, *temps])}

        def index_of(value: Value) -> int:
            return value.pool_column if value.pool_column is not None else index[id(value)]

        self.core = _core.Chain(
            pool_columns=num_pool,
            columns=[value.row_bytes for value in columns],
            pool_actions=len(env._actions.layout) + (env._actions.states is not None),
            carried=[value.row_bytes for value in carried],
            temps=[value.row_bytes for value in temps],
        )
        if (repeat := builder.repeat) is not None:
            reward = repeat.reward
            column = index_of(reward)
            self.core.repeat(times=repeat.times, reward=column, size=reward.size, dtype=reward.number)
        for one in builder.stages:
            arguments = {k: index_of(v) if isinstance(v, Value) else v for k, v in one.arguments.items()}
            stage = one.make(**arguments)
            self.core.add(one.phase, stage, at_steps=one.at_steps, at_resets=one.at_resets)

        self.num_columns = num_pool + len(columns)
        self.positions = [index_of(value) for value in final.values()]
        self.root_keys = [key for key, value in final.items() if value.at_resets]
        # Tensordicts of the pool of whose entries none is left, the innermost first.
        emptied = _groups_of(ChainBuilder.of(env).entries) - _groups_of(final)
        self.emptied = sorted(emptied, key=len, reverse=True)
        self.rows = {key: (value.shape, value.dtype) for key, value in final.items()}
        # These are read again once all envs' rows are there.
        self.read_later = [key for key, value in final.items() if value.at_resets and value.is_read_later]
        self.carried = builder.carried
        self.inverse = builder.inverse
        self._places = [one for one in builder.watched if isinstance(one[0], TensorAddress)]
        self.has_phases = self.core.num_phases > 1
        self._kept_alive = builder.kept_alive

        own = enumerate(ChainBuilder.of(env).entries.values())
        hidden = {column: value for column, value in own if column not in self.positions}
        hidden.update((index[id(value)], value) for value in columns if id(value) not in shown)
        self.hidden = Hidden(hidden, env.num_envs, self.has_phases)

    def check_in_place(self) -> None:
        """Raises RuntimeError: what a transform keeps is not where the executor reads and writes it."""
        if not _core.is_unchanged(self._places):
            raise RuntimeError(
                "a transform's buffer was moved while a batch was collected, as by share_memory_(): do so "
                "between batches"
            )


def _groups_of(keys: Iterable[Key]) -> set[tuple[str, ...]]:
    return {key[:depth] for key in keys if isinstance(key, tuple) for depth in range(1, len(key))}


def _one_column_each(builder: ChainBuilder) -> dict[Key, Value]:
    """The entries, each with a value of its own."""
    final: dict[Key, Value] = {}
    taken: set[int] = set()
    for key, value in builder.entries.items():
        if id(value) in taken:
            copy = Value(value.shape, value.dtype)
            whole: dict[str, Any] = {
                "sizes": [],
                "from_strides": [],
                "to_strides": [],
                "from_offset": 0,
                "to_offset": 0,
            }
            builder.add(
                _core.stages.copy,
                reads=[value],
                writes=[copy],
                in_=value,
                out=copy,
                bytes=value.row_bytes,
                **whole,
            )
            value = copy
        taken.add(id(value))
        final[key] = value
    return final


def _written(builder: ChainBuilder) -> list[Value]:
    """The values that stages write, in their order."""
    values: dict[int, Value] = {}
    for one in builder.stages:
        for value in one.arguments.values():
            if isinstance(value, Value) and value.pool_column is None and value.carried is None:
                values.setdefault(id(value), value)
    return list(values.values())


class Hidden:
    """Memory for the columns that nobody outside sees."""

    def __init__(self, columns: Mapping[int, Value], num_envs: int, twice: bool) -> None:
        def allocate() -> dict[int, torch.Tensor]:
            return {
                column: torch.zeros((num_envs, *value.shape), dtype=value.dtype, device="cpu")
                for column, value in columns.items()
            }

        self.out = allocate()
        self.root = allocate() if twice else self.out
        self._at_resets = [column for column, value in columns.items() if value.at_resets]
        self._row_bytes = {column: value.row_bytes for column, value in columns.items()}

    def rows_of_steps(self, num_columns: int) -> list[tuple[int, int]]:
        """Of all columns, the address of row 0 of those that are here, and the bytes of a row."""
        return self._rows(self.out, self.out, num_columns)

    def rows_of_roots(self, num_columns: int) -> list[tuple[int, int]]:
        """The same, of those that a reset writes."""
        return self._rows(self.root, self._at_resets, num_columns)

    def _rows(
        self, memory: dict[int, torch.Tensor], columns: Iterable[int], num_columns: int
    ) -> list[tuple[int, int]]:
        rows = [(0, 0)] * num_columns
        for column in columns:
            rows[column] = memory[column].data_ptr(), self._row_bytes[column]
        return rows

    def complete_root(self) -> None:
        """Copies what a step has written to where a reset writes."""
        for column in self._at_resets:
            self.root[column].data.copy_(self.out[column])  # whose version says what users have written to


class Inputs:
    """What a step reads of its root: actions, after what transforms make of them, and what is carried."""

    def __init__(self, chain: Chain) -> None:
        self._env, self._actions = chain.builder.env, chain.builder.env._actions
        self._carried = chain.carried
        self._inverse = list(reversed(chain.inverse))
        keys = [key for one in self._inverse for key in (*one.in_keys_inv, *one.out_keys_inv)]
        self._changes_nested = any(type(key) is not str for key in keys)
        self._may_be_next = [one.key for one in chain.carried if one.may_be_next]
        wanted = [*self._actions.wanted, *((one.key, one.dtype, one.shape) for one in chain.carried)]
        required = [True] * len(self._actions.wanted) + [one.required for one in chain.carried]
        self.plain = PlainEntries(wanted, required)

    def prepared(self, entries: Mapping[Any, Any], num_rows: int | None = None) -> Mapping[Any, Any]:
        """As :meth:`Actions.prepared`."""
        if self._may_be_next and (following := entries.get("next")) is not None:
            given = {key: following.get(key, None) for key in self._may_be_next}
            entries = {**entries, **{key: value for key, value in given.items() if value is not None}}
        if self._inverse:
            entries = self._inverted(entries, num_rows)
        return self._actions.prepared(entries, num_rows)

    def checked(
        self, entries: Mapping[Any, Any], num_rows: int | None = None
    ) -> tuple[list[Any], list[int]] | None:
        """As :meth:`Actions.checked`. None: what is carried is not as the specs have it."""
        carried: list[torch.Tensor | None] = []  # None: an entry that may be missing, and is
        for one in self._carried:
            value = entry_of(entries, one.key)
            if value is None:
                if one.required:
                    return None
                carried.append(None)
                continue
            shape = one.shape if num_rows is None else torch.Size((num_rows, *one.shape[1:]))
            if type(value) is not torch.Tensor or value.dtype is not one.dtype or value.shape != shape:
                return None
            if value.requires_grad:
                return None  # what TorchRL makes of it knows where it comes from
            if value.layout is not torch.strided:
                return None
            value = as_it_lies(value)
            if value.is_cpu:
                check_memory(one.key, value)
            carried.append(value)
        return self._actions.checked(entries, num_rows, carried)

    def _inverted(self, entries: Mapping[Any, Any], num_rows: int | None) -> Mapping[Any, Any]:
        """What transforms make of the entries on their way to the pool."""
        root: TensorDictBase = self._env._stepper.unsafe(dict(entries), num_rows=num_rows)
        if self._changes_nested:
            root = root.clone(recurse=False)
        for transform in self._inverse:
            root = _inverted(transform, root)
        return entries_of(root)


def _inverted(transform: Transform, root: TensorDictBase) -> TensorDictBase:
    """``transform._inv_call(root)``, whose entries are there and keep their place and size."""
    if type(root) is not TensorDict or type(transform)._inv_call is not Transform._inv_call:
        return transform._inv_call(root)
    entries = root._tensordict
    for key, from_key in zip(transform.in_keys_inv, transform.out_keys_inv, strict=True):
        value: Any = entries.get(from_key, None)
        if type(value) is not torch.Tensor or type(key) is not str:
            return transform._inv_call(root)
        entries[key] = transform._inv_apply_transform(value)
    return root
