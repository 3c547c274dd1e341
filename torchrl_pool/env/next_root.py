"""What the next step's root takes over from the last one's, as TorchRL's step_mdp has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import is_tensor_collection

from torchrl_pool import _core
from torchrl_pool.env.specs import Key, key_of


class NextRoot:
    """Makes the entries of the next root, for an env with these outputs and actions."""

    def __init__(self, outputs: Sequence[_core.Spec], actions: Sequence[Key]) -> None:
        self._not_carried = frozenset(("next", "_reset", "_step", *map(key_of, outputs)))
        self._written = [key_of(spec) for spec in outputs if spec.role != "reward"]
        self._actions = frozenset(actions)

    @classmethod
    def of(cls, written: Sequence[Key], in_root: Sequence[Key], actions: Sequence[Key]) -> NextRoot:
        """For an env that writes these entries in each step, and those of them into roots."""
        next_root = cls((), actions)
        next_root._not_carried = next_root._not_carried.union(written)
        next_root._written = list(in_root)
        return next_root

    def continued(self, root: Mapping[Key, Any], values: Mapping[Key, torch.Tensor]) -> dict[Key, Any]:
        """Where no episode has ended: what a step has written, by key, and what the root holds besides."""
        continued = self.carried(root, None)
        for key in self._written:
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
            for key, value in root.items()
            if key not in not_carried
        }
        if done is None or len(carried) <= len(self._actions):
            return carried
        goes_on = ~done.reshape(-1)
        for key, value in carried.items():
            if key not in self._actions:
                carried[key] = _cleared(value, goes_on)
        return carried


def _cleared(value: Any, goes_on: torch.Tensor) -> Any:
    """What a partial reset of EnvBase leaves of an entry; tensors take a quicker way to the same."""
    if is_tensor_collection(value):
        return value.where(goes_on, value.empty(), out=value, pad=0)
    zero = torch.zeros((), dtype=value.dtype, device=value.device)
    return torch.where(goes_on.reshape(-1, *[1] * (value.ndim - 1)), value, zero)
