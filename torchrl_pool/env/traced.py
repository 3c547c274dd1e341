"""What torch.compile sees of an env where it traces a function that steps one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool.env import operators
from torchrl_pool.env.life import LifeMethods
from torchrl_pool.env.specs import Key


class TracedMethods(LifeMethods):
    """The calls of :class:`~torchrl_pool.PoolEnv` as operators, with nothing but tensors around them.

    No branch depends on what is in a tensor: where an eager call looks whether an episode has ended, these
    make the tensors that are right in either case.
    """

    _number: int
    _order: torch.Tensor
    _row_layout: dict[Key, tuple[torch.Size, torch.dtype]]

    def _be_traceable(self) -> None:
        self._number = operators.register(self)
        templates = self._allocator.step_templates
        self._row_layout = {key: (value.shape, value.dtype) for key, value in templates.items()}
        self._order = torch.zeros((), dtype=torch.uint8, device="cpu")

    def _traced_step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        actions = self._traced_actions(tensordict)
        written, begun = self._traced_rows(self.step_keys), self._traced_rows(self.root_keys)
        torch.ops.torchrl_pool.step_and_reset(self._order, self._number, actions, written, begun)
        after = self._traced_values(self.step_keys, written)
        first = dict(zip(self.root_keys, begun, strict=True))
        action_keys = [key for key, _, _ in self._action_layout]
        root = traced_root(tensordict, after.get("done"), first, action_keys, self.step_keys)
        preset = tensordict.get("next", None)
        if preset is not None:
            after.update(preset.exclude(*self.step_keys))
        tensordict.set("next", after)
        return tensordict, TensorDict(root, batch_size=self.batch_size, device=self.device)

    def _traced_step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = tensordict.get("_step", None)
        kept, columns = self._traced_kept(tensordict, self.step_keys, mask)
        actions = self._traced_actions(tensordict)
        written = self._traced_rows(self.step_keys)
        torch.ops.torchrl_pool.step(self._order, self._number, actions, mask, kept, columns, written)
        return self._traced_values(self.step_keys, written)

    def _traced_reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        kept, columns = self._traced_kept(tensordict, self.root_keys, mask)
        begun = self._traced_rows(self.root_keys)
        torch.ops.torchrl_pool.reset(self._order, self._number, mask, kept, columns, begun)
        return self._traced_values(self.root_keys, begun)

    def _traced_rows(self, keys: Sequence[Key]) -> list[torch.Tensor]:
        """Memory of the graph's for an operator to write to."""
        shapes = [(key, self._row_layout[key]) for key in keys]
        return [torch.empty(shape, dtype=dtype, device=self.device) for _, (shape, dtype) in shapes]

    def _traced_actions(self, tensordict: TensorDictBase) -> list[torch.Tensor]:
        actions = []
        for key, _, _ in self._action_layout:
            action = tensordict.get(key, None)
            if action is None:
                raise KeyError(f"expected an entry {key!r} in the tensordict")
            actions.append(action)
        return actions

    def _traced_kept(
        self, tensordict: TensorDictBase | None, keys: Sequence[Key], mask: torch.Tensor | None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """What rows that a mask leaves out may take over, and the numbers of the keys."""
        kept, columns = [], []
        if tensordict is not None and mask is not None:
            for column, key in enumerate(keys):
                value = tensordict.get(key, None)
                if value is not None:
                    kept.append(value)
                    columns.append(column)
        return kept, columns

    def _traced_values(self, keys: Sequence[Key], values: Sequence[torch.Tensor]) -> TensorDict:
        return TensorDict(
            dict(zip(keys, values, strict=True)), batch_size=self.batch_size, device=self.device
        )


def traced_root(
    tensordict: TensorDictBase,
    done: torch.Tensor,
    begun: dict[Key, torch.Tensor],
    actions: Sequence[Key],
    written: Sequence[Key],
) -> dict[Key, Any]:
    """What the executor has written, and the entries that no reset writes, as :class:`NextRoot` has them.

    Keys stay in their order: with another one the next call would be traced again.

    Args:
        tensordict: what the step began with.
        done: the rows that begin an episode.
        begun: what the executor has written into the root.
        actions: the keys of what it reads.
        written: those of what it writes in a step.
    """
    not_carried = {"next", "_reset", "_step", *written}
    goes_on = ~done.reshape(-1)
    goes_on = goes_on | ~goes_on.any()  # TorchRL clears nothing where all begin anew
    root: dict[Key, Any] = {}
    for key in tensordict.keys(True, True):
        if key in begun:
            root[key] = begun[key]
        elif (key if isinstance(key, str) else key[0]) not in not_carried:
            value = tensordict.get(key)
            if key not in actions:
                keeps = goes_on.reshape(-1, *[1] * (value.ndim - 1))
                value = torch.where(keeps, value, torch.zeros((), dtype=value.dtype, device=value.device))
            root[key] = value
    return {**root, **begun}
