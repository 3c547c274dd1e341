"""A step of fused transforms as an operator of torch, which torch.compile puts into its graphs as it is."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool.env.errors import env_failure
from torchrl_pool.env.traced import traced_root
from torchrl_pool.transforms.chain import is_unchanged

_parts: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count()

Tensors = Sequence[torch.Tensor]


class TracedPart:
    """What torch.compile sees of a native part: an operator, and tensors around it.

    Args:
        part: the ``NativePart`` of an env's transforms, which makes this.
    """

    def __init__(self, part: Any) -> None:
        env = part.env
        self.number = next(_numbers)
        _parts[self.number] = part
        self._order = torch.zeros((), dtype=torch.uint8, device="cpu")
        self._rows = {
            key: (torch.Size((env.num_envs, *shape)), dtype)
            for key, (shape, dtype) in part.chain.rows.items()
        }
        self._root_keys = list(part.chain.root_keys)
        self._action_keys = [key for key, _, _ in env._action_layout]
        self._after_keys = {one.key for one in part.inputs.carried if one.may_be_next}
        # Where inverse transforms read actions, the root holds what they make actions of.
        read = dict.fromkeys(key for one in part.chain.inverse for key in one.out_keys_inv)
        carried = (one.key for one in part.inputs.carried)
        self.input_keys = list(dict.fromkeys((*carried, *self._action_keys, *read)))
        self._batch_size, self._device = env.batch_size, env.device

    def step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As ``NativePart.step_and_reset``."""
        preset = tensordict.get("next", None)
        given, columns = [], []
        for column, key in enumerate(self.input_keys):
            value = tensordict.get(key, None)
            if key in self._after_keys and preset is not None:
                value = preset.get(key, value)
            if value is not None:
                given.append(value)
                columns.append(column)
        made = {
            key: torch.empty(shape, dtype=dtype, device=self._device)
            for key, (shape, dtype) in self._rows.items()
        }
        begun = {
            key: torch.empty(self._rows[key][0], dtype=self._rows[key][1], device=self._device)
            for key in self._root_keys
        }
        torch.ops.torchrl_pool_fused.step_and_reset(
            self._order, self.number, given, columns, list(made.values()), list(begun.values())
        )
        after = TensorDict(made, batch_size=self._batch_size, device=self._device)
        root = traced_root(tensordict, after.get("done"), begun, self._action_keys, list(self._rows))
        if preset is not None:
            after.update(preset.exclude(*self._rows))
        tensordict.set("next", after)
        return tensordict, TensorDict(root, batch_size=self._batch_size, device=self._device)


def step_and_reset(
    order: torch.Tensor, number: int, given: Tensors, columns: Sequence[int], out: Tensors, root: Tensors
) -> None:
    """Writes a step and the root that follows it, from these of the part's inputs."""
    part = _parts[number]
    env, chain = part.env, part.chain
    if not is_unchanged(chain.watched):
        raise RuntimeError("transforms have been changed since a function that steps them was compiled")
    keys = [part.traced.input_keys[column] for column in columns]
    inputs = part.inputs.check(env._unsafe(dict(zip(keys, given, strict=True))))
    if inputs is None:
        raise ValueError(f"expected a root with entries as the specs have them, got {keys}")
    tensors, addresses = part.allocator.for_step()
    begun, begun_addresses = part.allocator.for_root()
    owner = (inputs[0], tensors, begun, chain)
    try:
        resets = env._running().step_and_reset(inputs[1], addresses, begun_addresses, owner, None, chain.core)
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    part.is_stale = False
    chain.hidden.latest = chain.hidden.root if resets else chain.hidden.out
    following = begun if resets else tensors
    part.set_latest(following)
    for to, value in zip(out, tensors.values(), strict=True):
        to.copy_(value, non_blocking=True)
    for to, key in zip(root, chain.root_keys, strict=True):
        to.copy_(following[key], non_blocking=True)


_library: Any = torch.library.Library("torchrl_pool_fused", "DEF")  # type: ignore[no-untyped-call]
_library.define(
    "step_and_reset(Tensor(a!) order, int number, Tensor[] given, int[] columns, "
    "Tensor(b!)[] out, Tensor(c!)[] root) -> ()"
)
_library.impl("step_and_reset", step_and_reset, "CompositeExplicitAutograd")
torch.library.register_fake("torchrl_pool_fused::step_and_reset", lambda *_: None, lib=_library)
