"""What the next step's root takes over from the last one's, as TorchRL's step_mdp has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, is_leaf_nontensor, is_tensor_collection

from torchrl_pool._env.specs import Key, NestedSizes


class NextRoot:
    """Makes the entries of the next root.

    Args:
        written: what the env writes in each step.
        in_root: those of them that it writes into roots.
        read: what the env reads in each step.
        flags: the entries that tell whether an episode is over.
        nested_sizes: what batch sizes of nested tensordicts have besides the number of envs.
    """

    def __init__(
        self,
        written: Sequence[Key],
        in_root: Sequence[Key],
        read: Sequence[Key],
        flags: Sequence[Key],
        nested_sizes: NestedSizes,
    ) -> None:
        self.nested_sizes = nested_sizes
        self._keep_place = frozenset(in_root) - frozenset(flags)
        self._dropped = frozenset(("next", "_reset", "_step", *written, *flags)) - self._keep_place
        self._known = self._dropped | self._keep_place
        self._in_root = [*sorted(self._keep_place, key=_depth_and_name), *flags]
        self.shared = {key[0] for key in (*written, *read) if isinstance(key, tuple)}
        """Tensordicts of which the env writes or reads a part; the rest is carried, entry by entry."""

    def can_carry(self, root: Mapping[str, Any], batch_size: torch.Size) -> bool:
        """Whether what is carried can be put into tensordicts that are made anew."""
        shared: list[tuple[tuple[str, ...], Any, tuple[int, ...]]] = []
        shared += [((key,), root[key], ()) for key in self.shared if key in root]
        for path, one, above in shared:
            more = self.nested_sizes.get(path, above)
            size = batch_size + more
            if type(one) is not TensorDict or one.batch_size != size or one._td_dim_names is not None:
                return False
            within = ((key, value) for key, value in one.items() if is_tensor_collection(value))
            shared += [((*path, key), value, more) for key, value in within]
        return True

    def carries(self, root: Mapping[Key, Any], dropped: Collection[Key]) -> bool:
        """Whether the next root may hold something of this one that the env does not write."""
        return bool(self.shared) or not all(key in self._known or key in dropped for key in root)

    def following(
        self,
        root: Mapping[Key, Any],
        values: Mapping[Key, torch.Tensor],
        done: torch.Tensor | None = None,
        dropped: Collection[Key] = (),
    ) -> dict[Key, Any]:
        """The next root: what is written to it, and what the last one holds besides, in TorchRL's order.

        Args:
            root: the last one, ``"next"`` aside or not.
            values: what is written to the next one, and perhaps more.
            done: the rows that begin an episode while others do not (bool, ``[N]`` or ``[N, 1]``). As in
                TorchRL, all that no reset writes, actions among it, is zero there.
            dropped: entries of the last root that the next one does not hold.
        """
        following: dict[Key, Any] = {}
        for key, value in (self._entry_by_entry(root) if self.shared else root).items():
            if key in self._dropped or key in dropped:
                continue
            if key in self._keep_place:
                following[key] = values[key]
                continue
            own = value if type(value) is torch.Tensor or not is_tensor_collection(value) else value.copy()
            following[key] = own if done is None else _cleared(own, done)
        for key in self._in_root:
            following[key] = values[key]
        return following

    def _entry_by_entry(self, root: Mapping[Key, Any]) -> dict[Key, Any]:
        entries: dict[Key, Any] = {}
        for key, value in root.items():
            if key in self.shared and is_tensor_collection(value):
                for below, leaf in value.items(True, True, is_leaf=is_leaf_nontensor):
                    entries[key, *([below] if isinstance(below, str) else below)] = leaf
            else:
                entries[key] = value
        return entries


# `where` of torch 2.9 knows no unsigned integers but uint8.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _depth_and_name(key: Key) -> tuple[int, str]:
    return (0, key) if isinstance(key, str) else (len(key) - 1, ".".join(key))


def _cleared(value: Any, done: torch.Tensor) -> Any:
    """What a partial reset of EnvBase leaves of an entry."""
    if type(value) is not torch.Tensor and is_tensor_collection(value):
        return value.where(~done.reshape(-1), value.empty(), out=value, pad=0)
    if value.dtype in _SIGNED:  # only then, for a view of another type has no gradient
        return _cleared(value.view(_SIGNED[value.dtype]), done).view(value.dtype)
    return torch.where(done.reshape(-1, *[1] * (value.ndim - 1)), value.new_zeros(()), value)
