"""Actions: what a pool's steps read of a tensordict, and what is wrong with what they cannot read."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec

from torchrl_pool._env.source import Source
from torchrl_pool._env.specs import Key, action_shape, actions_of, key_of, torch_dtype
from torchrl_pool._env.states import StateEntries
from torchrl_pool._env.tensors import PlainEntries, as_choices, as_it_lies, check_memory
from torchrl_pool._env.transfers import down


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
        self.plain = PlainEntries(self.layout)

    def check(
        self, tensordict: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """What a step reads, as contiguous CPU tensors, and their addresses. Values are checked in C++."""
        found = self.plain.find(tensordict, num_rows)
        if found is None:
            found = self._check_closely(tensordict, num_rows)
        if self.states is not None:
            states = self.states.packed(tensordict, num_rows)
            found[0].append(states)
            found[1].append(states.data_ptr())
        return found

    def states_in(
        self, tensordict: TensorDictBase | None, num_rows: int | None = None
    ) -> torch.Tensor | None:
        """The states that a tensordict holds for a reset, as the executor takes them; ``None``: none."""
        if self.states is None or tensordict is None or not self.states.are_in(tensordict):
            return None
        return self.states.packed(tensordict, num_rows)

    def _check_closely(
        self, tensordict: TensorDictBase, num_rows: int | None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The same for actions that are not just as the executor reads them."""
        actions, addresses = [], []
        for key, dtype, shape in self.layout:
            action = tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None)
            if not isinstance(action, torch.Tensor):
                if action is None:
                    raise KeyError(
                        f"expected an entry {key!r} in the tensordict, got {list(tensordict.keys())}"
                    )
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
                addresses.append(action.data_ptr())
            elif self._env._on_cpu:
                raise ValueError(f"{key!r}: expected a tensor on cpu, got one on {action.device}")
            actions.append(action)
        if len(addresses) < len(actions):
            actions = down(actions)
            addresses = [action.data_ptr() for action in actions]
        return actions, addresses


def _encoding(spec: TensorSpec) -> tuple[str, str]:
    """How discrete actions are encoded, for a message; and how to have the other encoding."""
    if isinstance(spec, (OneHot, MultiOneHot)):
        return "one-hot vectors of ", "; categorical_action_encoding=True takes the numbers of the choices"
    if isinstance(spec, (Categorical, MultiCategorical)):
        return "numbers of the choices, of ", "; categorical_action_encoding=False takes one-hot vectors"
    return "", ""
