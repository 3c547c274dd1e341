"""Calls of fused transforms as operators of torch, which torch.compile puts into its graphs as they are."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.specs import Key
from torchrl_pool._env.traced import entries_of, grouped, traced_root
from torchrl_pool._transforms import torchrl_side

_envs: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count()

Tensors = Sequence[torch.Tensor]


class Traced:
    """Where graphs find what they see of an env's native part."""

    part: TracedPart | None = None

    def update(self, part: TracedPart) -> None:
        """Graphs hold as long as what they take for granted does."""
        if self.part is None or self.part.layout != part.layout:
            self.part = part


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _prepare(env: Any) -> int:
    """Has an env's transforms translated as they are now; called while a graph is made."""
    env.native()
    part: TracedPart = env.__dict__["_traced"].part
    part.attributes = torchrl_side.attributes_of(part.rest)
    return 0


def traced_part(env: Any) -> TracedPart:
    """The native part of a ``FusedEnv`` as a graph sees it."""
    _prepare(env)
    part: TracedPart = env.__dict__["_traced"].part
    return part


class TracedPart:
    """What torch.compile sees of a native part: operators, and tensors around them.

    Args:
        env: a ``FusedEnv``.
        part: its ``NativePart``.
    """

    def __init__(self, env: Any, part: Any) -> None:
        pool = part.env
        self.number = next(_numbers)
        _envs[self.number] = env
        self.rest = part.rest
        self.attributes: list[tuple[torch.nn.Module, str]] = []  # of these, as a graph is made
        self._order = torch.zeros((), dtype=torch.uint8, device="cpu")
        self._rows = {
            key: (torch.Size((pool.num_envs, *shape)), dtype)
            for key, (shape, dtype) in part.chain.rows.items()
        }
        self.root_keys = list(part.chain.root_keys)
        self.state_keys = list(env.state_spec.keys(True, True))
        self._action_keys = [key for key, _, _ in pool._action_layout]
        self._after_keys = [one.key for one in part.inputs.carried if one.may_be_next]
        # Where inverse transforms read actions, the root holds what they make actions of.
        read = dict.fromkeys(key for one in part.chain.inverse for key in one.out_keys_inv)
        carried = (one.key for one in part.inputs.carried)
        states = [] if pool._states is None else pool._states.keys
        self.input_keys = list(dict.fromkeys((*carried, *self._action_keys, *states, *read)))
        self._batch_size, self._device, self._groups = pool.batch_size, pool.device, pool._groups
        self._has_hook = pool._post_step_mdp_hooks is not None
        for kind in ("action", "state", "reward", "done", "reset"):
            getattr(env, f"{kind}_keys")  # what TorchRL makes once and keeps, and what a graph would find new
        env._step_mdp, env.done_keys_groups  # noqa: B018

    @property
    def layout(self) -> tuple[Any, ...]:
        """What a graph takes for granted."""
        keys = self._rows, self.root_keys, self.state_keys, self._action_keys, self._after_keys
        return *keys, self.input_keys, self.rest, self._device, self._has_hook

    # ---- as NativePart has them

    def step(self, root: TensorDictBase) -> TensorDictBase:
        given, columns = self._inputs(root)
        made = self._allocate(self._rows)
        torch.ops.torchrl_pool_fused.step(self._order, self.number, given, columns, list(made.values()))
        return self._tensordict(made)

    def reset(
        self, source: TensorDictBase | None, known: TensorDictBase | None, *, if_any: bool = False
    ) -> TensorDictBase:
        mask = None if source is None else source.get("_reset", None)
        begun = self._allocate(self.root_keys)
        torch.ops.torchrl_pool_fused.reset(
            self._order,
            self.number,
            mask,
            *entries_of(source, self.state_keys),
            *entries_of(known, self.root_keys),
            if_any,
            list(begun.values()),
        )
        return self._tensordict(begun)

    # ---- step_and_maybe_reset

    def step_and_maybe_reset(
        self, env: Any, tensordict: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """As ``EnvBase.step_and_maybe_reset``."""
        if not self.rest and not self._has_hook:
            return self._step_and_reset(tensordict)
        keys = list(tensordict.keys())
        tensordict = env.step(tensordict)
        root = env._step_mdp(tensordict)
        tensordict, root = env._post_step_mdp_hooks(tensordict, root)
        mask = root.get("done")
        kept = torchrl_side.Kept(self.attributes)
        source = self._tensordict({"_reset": mask})
        begun = torchrl_side.reset(self, source, root, if_any=True)
        kept.take_back_unless(mask.any())
        root = env._reset_proc_data(root.set("_reset", mask), begun)
        # Keys stay in their order, as in traced_root.
        ordered = {key: root.get(key) for key in (*keys, *root.keys()) if key in root}
        return tensordict, self._tensordict(ordered)

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Where all transforms are native, and nothing comes between the step and the reset."""
        preset = tensordict.get("next", None)
        given, columns = self._inputs(tensordict)
        made, begun = self._allocate(self._rows), self._allocate(self.root_keys)
        torch.ops.torchrl_pool_fused.step_and_reset(
            self._order, self.number, given, columns, list(made.values()), list(begun.values())
        )
        after = self._tensordict(made)
        root = traced_root(tensordict, after.get("done"), begun, list(self._rows))
        if preset is not None:
            after.update(preset.exclude(*self._rows))
        tensordict.set("next", after)
        return tensordict, self._tensordict(root)

    def _inputs(self, root: TensorDictBase) -> tuple[list[torch.Tensor], list[int]]:
        """What a step reads, and the numbers of its keys."""
        preset = root.get("next", None)
        if preset is not None and self._after_keys:
            root = root.copy().update(preset.select(*self._after_keys, strict=False))
        return entries_of(root, self.input_keys)

    def _allocate(self, keys: Any) -> dict[Key, torch.Tensor]:
        """Memory of the graph's for an operator to write to."""
        rows = [(key, *self._rows[key]) for key in keys]
        return {key: torch.empty(shape, dtype=dtype, device=self._device) for key, shape, dtype in rows}

    def _tensordict(self, values: dict[Key, Any]) -> TensorDict:
        return grouped(TensorDict(values, batch_size=self._batch_size, device=self._device), self._groups)


# ---- the operators


def step_and_reset(
    order: torch.Tensor, number: int, given: Tensors, columns: Sequence[int], out: Tensors, root: Tensors
) -> None:
    """Writes a step and the root that follows it, from these of the part's inputs."""
    part, traced = _part(number)
    env, chain = part.env, part.chain
    inputs = part.inputs.check(_given(part, traced.input_keys, given, columns))
    if inputs is None:
        raise _unexpected(traced, columns)
    written, begun = dict(zip(chain.keys, out, strict=True)), dict(zip(chain.root_keys, root, strict=True))
    if env._on_cpu:
        addresses = part.allocator.columns_of(out, root=False)
        begun_addresses = part.allocator.columns_of(root, root=True)
    else:
        written, addresses = part.allocator.for_step()
        begun, begun_addresses = part.allocator.for_root()
    owner = (inputs[0], written, begun, chain)
    try:
        resets = env._running().step_and_reset(inputs[1], addresses, begun_addresses, owner, None, chain.core)
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    part.is_stale = False
    chain.hidden.latest = chain.hidden.root if resets else chain.hidden.out
    following = begun if resets else written  # the executor leaves the root to its caller where nobody ended
    # The memory of a graph is used again.
    part.set_latest({key: following[key].clone() for key in chain.remembered_keys})
    if not env._on_cpu:
        _hand_out(list(written.values()), out)
    if following is not begun or not env._on_cpu:
        _hand_out([following[key] for key in chain.root_keys], root)


def step(order: torch.Tensor, number: int, given: Tensors, columns: Sequence[int], out: Tensors) -> None:
    """Writes a step, from these of the part's inputs."""
    part, traced = _part(number)
    following = part.step(_given(part, traced.input_keys, given, columns))
    if following is None:
        raise _unexpected(traced, columns)
    _hand_out([following.get(key) for key in part.chain.keys], out)


def reset(
    order: torch.Tensor,
    number: int,
    mask: torch.Tensor | None,
    source: Tensors,
    source_keys: Sequence[int],
    known: Tensors,
    known_keys: Sequence[int],
    if_any: bool,
    root: Tensors,
) -> None:
    """Writes the first rows of new episodes.

    Where a mask names none, ``if_any`` says that nothing is reset, and that what is written does not count.
    """
    part, traced = _part(number)
    if mask is not None and if_any and not mask.any():
        torch._foreach_zero_(list(root))
        return
    looked_at = None
    if mask is not None:
        looked_at = _given(part, traced.state_keys, source, source_keys).set("_reset", mask)
    begun = part.reset(looked_at, _given(part, traced.root_keys, known, known_keys))
    _hand_out([begun.get(key) for key in traced.root_keys], root)


def _part(number: int) -> tuple[Any, TracedPart]:
    env = _envs[number]
    part, traced = env.native(), env.__dict__["_traced"].part
    if traced.number != number:
        raise RuntimeError(
            "transforms that a compiled function steps have been changed since, and give other entries"
        )
    return part, traced


def _given(part: Any, keys: Sequence[Key], values: Tensors, columns: Sequence[int]) -> TensorDict:
    given: TensorDict = part.unsafe(
        {keys[column]: value for column, value in zip(columns, values, strict=True)}
    )
    return given


def _unexpected(traced: TracedPart, columns: Sequence[int]) -> ValueError:
    keys = [traced.input_keys[column] for column in columns]
    return ValueError(f"expected a root with entries as the specs have them, got {keys}")


def _hand_out(values: Sequence[torch.Tensor], out: Tensors) -> None:
    for to, value in zip(out, values, strict=True):
        to.copy_(value, non_blocking=True)


_library: Any = torch.library.Library("torchrl_pool_fused", "DEF")  # type: ignore[no-untyped-call]
_INPUTS = "Tensor(a!) order, int number, Tensor[] given, int[] columns"
for _operator, _signature in (
    (step_and_reset, f"{_INPUTS}, Tensor(b!)[] out, Tensor(c!)[] root"),
    (step, f"{_INPUTS}, Tensor(b!)[] out"),
    (
        reset,
        "Tensor(a!) order, int number, Tensor? mask, Tensor[] source, int[] source_keys, "
        "Tensor[] known, int[] known_keys, bool if_any, Tensor(b!)[] root",
    ),
):
    _name = _operator.__name__
    _library.define(f"{_name}({_signature}) -> ()")
    _library.impl(_name, _operator, "CompositeExplicitAutograd")
    torch.library.register_fake(f"torchrl_pool_fused::{_name}", lambda *_: None, lib=_library)
