"""Actions: what a pool's steps read of a tensordict, and what is wrong with what they cannot read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec

from torchrl_pool._env.source import Source
from torchrl_pool._env.specs import Key, action_shape, actions_of, key_of, torch_dtype
from torchrl_pool._env.states import StateEntries
from torchrl_pool._env.tensors import PlainEntries, as_choices, as_it_lies, check_memory, entries_of, entry_of
from torchrl_pool._env.transfers import down

_STATES = "_states"


class Actions:
    """The actions of all envs of a pool, and the states of those whose steps read them.

    Args:
        env: the PoolEnv.
        source: where its envs come from.
    """

    def __init__(self, env: Any, source: Source) -> None:
        self._env = env
        self.layout: list[tuple[Key, torch.dtype, torch.Size]] = [
            (key_of(spec), torch_dtype(spec), torch.Size((env.num_envs, *action_shape(spec, source.one_hot))))
            for spec in actions_of(source.configs[0])
        ]
        self.states = StateEntries(source.states, env.num_envs) if source.states else None
        self.wanted = list(self.layout)
        """All that a step reads: actions, and the column of states."""
        if self.states is not None:
            self.wanted.append((_STATES, torch.uint8, torch.Size((env.num_envs, self.states.row_bytes))))
        self.plain = PlainEntries(self.wanted)

    def prepared(self, entries: Mapping[Any, Any], num_rows: int | None = None) -> Mapping[Any, Any]:
        """Entries in which the executor finds what a step reads; ``num_rows``: of so many envs; None: all."""
        if self.states is None:
            return entries
        return {**entries, _STATES: self.states.packed(entries, num_rows)}

    def checked(
        self,
        entries: Mapping[Any, Any],
        num_rows: int | None = None,
        carried: Sequence[torch.Tensor | None] = (),
    ) -> tuple[list[Any], list[int]]:
        """The same, where the executor has not found them just as it reads them.

        Args:
            entries: as :meth:`prepared` returns them.
            num_rows: of how many envs; None: all.
            carried: what else the step reads; None: an entry that is not there.

        Returns:
            Contiguous CPU tensors and their addresses. Values are checked in C++.
        """
        read: list[Any] = [self._checked(entries, *one, num_rows) for one in self.layout]
        if self.states is not None:
            read.append(entries[_STATES])
        read += carried
        if away := [value for value in read if value is not None and not value.is_cpu]:
            there = dict(zip(map(id, away), down(away), strict=True))
            read = [there.get(id(value), value) for value in read]
        return read, [0 if value is None else value.data_ptr() for value in read]

    def states_in(
        self, tensordict: TensorDictBase | None, num_rows: int | None = None
    ) -> torch.Tensor | None:
        """The states that a tensordict holds for a reset, as the executor takes them; ``None``: none."""
        if self.states is None or tensordict is None or not self.states.are_in(tensordict):
            return None
        return self.states.packed(entries_of(tensordict), num_rows)

    def _checked(
        self,
        entries: Mapping[Any, Any],
        key: Key,
        dtype: torch.dtype,
        shape: torch.Size,
        num_rows: int | None,
    ) -> torch.Tensor:
        action = entry_of(entries, key)
        if not isinstance(action, torch.Tensor):
            if action is None:
                raise KeyError(f"expected an entry {key!r} in the tensordict, got {list(entries)}")
            raise TypeError(f"{key!r}: expected a torch.Tensor, got {type(action).__name__}")
        if num_rows is not None:
            shape = torch.Size((num_rows, *shape[1:]))
        if action.shape != shape:
            kind, instead = _encoding(self._env.full_action_spec[key])
            raise ValueError(
                f"{key!r}: expected {kind}shape {list(shape)}, got {list(action.shape)}{instead}"
            )
        if action.layout is not torch.strided:
            raise TypeError(f"{key!r}: expected a dense tensor, got one of layout {action.layout}")
        if action.dtype is not dtype:
            action = as_choices(key, action, dtype)
        action = as_it_lies(action)
        if action.is_cpu:
            check_memory(key, action)
        elif self._env._on_cpu:
            raise ValueError(f"{key!r}: expected a tensor on cpu, got one on {action.device}")
        return action


def _encoding(spec: TensorSpec) -> tuple[str, str]:
    """How discrete actions are encoded, for a message; and how to have the other encoding."""
    if isinstance(spec, (OneHot, MultiOneHot)):
        return "one-hot vectors of ", "; categorical_action_encoding=True takes the numbers of the choices"
    if isinstance(spec, (Categorical, MultiCategorical)):
        return "numbers of the choices, of ", "; categorical_action_encoding=False takes one-hot vectors"
    return "", ""
