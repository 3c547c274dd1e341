"""What torch.compile sees of an env where it traces a function that steps one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env import operators
from torchrl_pool._env.lifecycle import LifeMethods
from torchrl_pool._env.specs import Groups, Key

Call = TypeVar("Call", bound=Callable[..., Any])


def no_part_of_a_graph(reason: str) -> Callable[[Call], Call]:
    """A call that breaks a graph, or with ``fullgraph=True`` is an error, for this reason."""
    decorate: Callable[[Call], Call] = torch.compiler.disable(reason=reason)  # type: ignore[no-untyped-call]
    return decorate


class TracedResets(EnvBase):
    """What is around the ``_reset`` of an env of this package while it is traced."""

    def _reset_proc_data(
        self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        if torch.compiler.is_compiling():
            return traced_reset(self, tensordict, tensordict_reset)
        root: TensorDictBase = super()._reset_proc_data(tensordict, tensordict_reset)
        return root

    @no_part_of_a_graph("a reset with seeds or options")
    def _reset_with(self, tensordict: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        root: TensorDictBase = self._reset(tensordict, **kwargs)
        return root


class TracedMethods(TracedResets, LifeMethods):
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
        root = traced_root(tensordict, after.get("done"), first, self.step_keys)
        preset = tensordict.get("next", None)
        if preset is not None:
            after.update(preset.exclude(*self.step_keys))
        tensordict.set("next", after)
        following = TensorDict(root, batch_size=self.batch_size, device=self.device)
        return tensordict, grouped(following, self._groups)

    def _traced_step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = tensordict.get("_step", None)
        kept, columns = entries_of(None if mask is None else tensordict, self.step_keys)
        actions = self._traced_actions(tensordict)
        written = self._traced_rows(self.step_keys)
        torch.ops.torchrl_pool.step(self._order, self._number, actions, mask, kept, columns, written)
        return self._traced_values(self.step_keys, written)

    def _traced_reset(self, tensordict: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        if self._states is not None or any(value is not None for value in kwargs.values()):
            return self._reset_with(tensordict, kwargs)
        mask = None if tensordict is None else tensordict.get("_reset", None)
        kept, columns = entries_of(None if mask is None else tensordict, self.root_keys)
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
        return actions if self._states is None else [*actions, self._states.packed(tensordict)]

    def _traced_values(self, keys: Sequence[Key], values: Sequence[torch.Tensor]) -> TensorDict:
        entries = dict(zip(keys, values, strict=True))
        return grouped(TensorDict(entries, batch_size=self.batch_size, device=self.device), self._groups)


def grouped(tensordict: TensorDict, groups: Groups) -> TensorDict:
    """The same, whose nested tensordicts have the batch sizes that they are to have."""
    for path, more in groups.items():
        below = tensordict.get(path, None) if more else None
        if below is not None:
            below.batch_size = torch.Size([*tensordict.batch_size, *more])
    return tensordict


def entries_of(
    tensordict: TensorDictBase | None, keys: Sequence[Key]
) -> tuple[list[torch.Tensor], list[int]]:
    """The entries that a tensordict has of these, and their places among the keys."""
    values, columns = [], []
    for column, key in enumerate(keys):
        value = None if tensordict is None else tensordict.get(key, None)
        if value is not None:
            values.append(value)
            columns.append(column)
    return values, columns


def traced_reset(
    env: EnvBase, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase
) -> TensorDictBase:
    """What ``EnvBase.reset`` makes of the root that it was given and the one that ``_reset`` gives."""
    mask = None if tensordict is None else tensordict.get("_reset", None)
    flags = [tensordict_reset.get(key) for key in env.done_keys]
    if not env._allow_done_after_reset:
        for flag in flags:
            begun = flag if mask is None else _where(mask, flag, None)
            torch._assert_async(~begun.any(), "an env is done after its reset")
    if tensordict is None:
        return tensordict_reset
    for key in env.reset_keys:
        tensordict.pop(key, None)
    if mask is None:
        return tensordict.update(tensordict_reset)
    mask = mask.reshape(-1)
    written = dict(tensordict_reset.items(True, True))
    goes_on = ~mask | mask.all()  # TorchRL clears nothing where all begin anew
    for key, value in dict(tensordict.items(True, True)).items():
        if key not in written:
            tensordict.set(key, _where(goes_on, value, None))
    for key, value in written.items():
        known = tensordict.get(key, None)
        if known is not None or key not in env.done_keys:
            value = _where(mask, value, known)
        tensordict.set(key, value)
    return tensordict


def _where(rows: torch.Tensor, value: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
    """These rows of a value; the others are those of another one, or zeros."""
    if other is None:
        other = torch.zeros((), dtype=value.dtype, device=value.device)
    return torch.where(rows.reshape(-1, *[1] * (value.ndim - 1)), value, other)


def traced_root(
    tensordict: TensorDictBase,
    done: torch.Tensor,
    begun: dict[Key, torch.Tensor],
    written: Sequence[Key],
) -> dict[Key, Any]:
    """What the executor has written, and the entries that no reset writes, as :class:`NextRoot` has them.

    Keys stay in their order: with another one the next call would be traced again.

    Args:
        tensordict: what the step began with.
        done: the rows that begin an episode.
        begun: what the executor has written into the root.
        written: the keys of what it writes in a step.
    """
    not_carried = {"next", "_reset", "_step", *written}
    goes_on = ~done.reshape(-1)
    goes_on = goes_on | ~goes_on.any()  # TorchRL clears nothing where all begin anew
    root: dict[Key, Any] = {}
    for key in tensordict.keys(True, True):
        if key in begun:
            root[key] = begun[key]
        elif (key if isinstance(key, str) else key[0]) not in not_carried:
            root[key] = _where(goes_on, tensordict.get(key), None)
    return {**root, **begun}
