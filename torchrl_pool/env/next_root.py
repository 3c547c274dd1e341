"""What the next step's root takes over from the last one's, as TorchRL's step_mdp has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, is_leaf_nontensor, is_tensor_collection

from torchrl_pool.env.specs import Key


class NextRoot:
    """Makes the entries of the next root.

    Args:
        written: what the env writes in each step.
        in_root: those of them that it writes into roots.
        actions: what it reads.
    """

    def __init__(self, written: Sequence[Key], in_root: Sequence[Key], actions: Sequence[Key]) -> None:
        self._not_carried = frozenset(("next", "_reset", "_step", *written))
        self._in_root = list(in_root)
        self._actions = frozenset(actions)
        # Tensordicts of which the env writes or reads a part: the rest of them is carried, entry by entry.
        self._shared = {key[0] for key in (*written, *actions) if isinstance(key, tuple)}

    def can_carry(self, root: Mapping[str, Any], batch_size: torch.Size) -> bool:
        """Whether what is carried can be put into tensordicts that are made anew."""
        shared = [root[key] for key in self._shared if key in root]
        for one in shared:
            if type(one) is not TensorDict or one.batch_size != batch_size or one._td_dim_names is not None:
                return False
            shared += [value for value in one.values() if is_tensor_collection(value)]
        return True

    def continued(self, root: Mapping[Key, Any], values: Mapping[Key, torch.Tensor]) -> dict[Key, Any]:
        """Where no episode has ended: what a step has written, by key, and what the root holds besides."""
        continued = self.carried(root, None)
        for key in self._in_root:
            continued[key] = values[key]
        return continued

    def carried(self, root: Mapping[Key, Any], done: torch.Tensor | None) -> dict[Key, Any]:
        """The entries that no reset writes.

        ``done`` (bool, ``[N]`` or ``[N, 1]``) names the rows that begin an episode while others do not:
        TorchRL leaves zeros there. But actions stay, since the policy overwrites them.
        """
        not_carried = self._not_carried
        carried: dict[Key, Any] = {
            key: value if type(value) is torch.Tensor or not is_tensor_collection(value) else value.copy()
            for key, value in (self._entry_by_entry(root) if self._shared else root).items()
            if key not in not_carried
        }
        if done is None or len(carried) <= len(self._actions):
            return carried
        goes_on = ~done.reshape(-1)
        for key, value in carried.items():
            if key not in self._actions:
                carried[key] = _cleared(value, goes_on)
        return carried

    def _entry_by_entry(self, root: Mapping[Key, Any]) -> dict[Key, Any]:
        entries: dict[Key, Any] = {}
        for key, value in root.items():
            if key in self._shared and is_tensor_collection(value):
                for below, leaf in value.items(True, True, is_leaf=is_leaf_nontensor):
                    entries[key, *([below] if isinstance(below, str) else below)] = leaf
            else:
                entries[key] = value
        return entries


def _cleared(value: Any, goes_on: torch.Tensor) -> Any:
    """What a partial reset of EnvBase leaves of an entry; tensors take a quicker way to the same."""
    if is_tensor_collection(value):
        return value.where(goes_on, value.empty(), out=value, pad=0)
    zero = torch.zeros((), dtype=value.dtype, device=value.device)
    return torch.where(goes_on.reshape(-1, *[1] * (value.ndim - 1)), value, zero)
