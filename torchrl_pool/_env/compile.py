"""What torch.compile sees of a pool where it traces a function that steps one.

A compiled function cannot look into the executor. It sees operators that read actions, write into tensors
that the graph has allocated, and change the env's ``order``, a tensor that nothing else touches: so none of
them is left out, done twice or moved past another. Around them are nothing but tensors: no branch depends on
what is in one. Where an eager call looks whether an episode has ended, these functions make the tensors that
are right in either case.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.executor_env import ExecutorEnv
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.specs import Key

Call = TypeVar("Call", bound=Callable[..., Any])
Tensors = Sequence[torch.Tensor]


def breaks_graph(reason: str) -> Callable[[Call], Call]:
    """A call that breaks a graph, or with ``fullgraph=True`` is an error, for this reason."""
    decorate: Callable[[Call], Call] = torch.compiler.disable(reason=reason)  # type: ignore[no-untyped-call]
    return decorate


@dataclass(frozen=True)
class GraphView:
    """What a graph knows of an env."""

    number: int  # for operators, which take numbers, not objects
    order: torch.Tensor
    rows: Mapping[Key, tuple[torch.Size, torch.dtype]]  # what a step writes

    @classmethod
    def of(cls, env: ExecutorEnv) -> GraphView:
        number = next(_numbers)
        _envs[number] = env
        rows = {key: (value.shape, value.dtype) for key, value in env._allocator.step_prototypes.items()}
        return cls(number, torch.zeros((), dtype=torch.uint8, device="cpu"), rows)


_envs: weakref.WeakValueDictionary[int, ExecutorEnv] = weakref.WeakValueDictionary()
_numbers = itertools.count()


# ---- around the operators: traced


def graph_step_and_reset(
    env: ExecutorEnv, view: GraphView, tensordict: TensorDictBase
) -> tuple[TensorDictBase, TensorDictBase]:
    """As ``EnvBase.step_and_maybe_reset``."""
    actions = _actions(env, tensordict)
    written, begun = _allocate(env, view, env.step_keys), _allocate(env, view, env.root_keys)
    torch.ops.torchrl_pool.step_and_reset(view.order, view.number, actions, written, begun)
    after = _tensordict_of(env, env.step_keys, written)
    first = dict(zip(env.root_keys, begun, strict=True))
    root = _following_root(tensordict, after.get("done"), first, env.step_keys)
    preset = tensordict.get("next", None)
    if preset is not None:
        after.update(preset.exclude(*env.step_keys))
    tensordict.set("next", after)
    return tensordict, _sized(env, TensorDict(root, batch_size=env.batch_size, device=env.device))


def graph_step(env: ExecutorEnv, view: GraphView, tensordict: TensorDictBase) -> TensorDictBase:
    """As ``EnvBase._step``."""
    mask = tensordict.get("_step", None)
    kept, columns = _entries_of(None if mask is None else tensordict, env.step_keys)
    actions = _actions(env, tensordict)
    written = _allocate(env, view, env.step_keys)
    torch.ops.torchrl_pool.step(view.order, view.number, actions, mask, kept, columns, written)
    return _tensordict_of(env, env.step_keys, written)


def graph_reset(env: ExecutorEnv, view: GraphView, tensordict: TensorDictBase | None) -> TensorDictBase:
    """As ``EnvBase._reset``, without seeds and options."""
    mask = None if tensordict is None else tensordict.get("_reset", None)
    kept, columns = _entries_of(None if mask is None else tensordict, env.root_keys)
    begun = _allocate(env, view, env.root_keys)
    torch.ops.torchrl_pool.reset(view.order, view.number, mask, kept, columns, begun)
    return _tensordict_of(env, env.root_keys, begun)


def _allocate(env: ExecutorEnv, view: GraphView, keys: Sequence[Key]) -> list[torch.Tensor]:
    """Memory of the graph's for an operator to write to."""
    return [
        torch.empty(shape, dtype=dtype, device=env.device)
        for shape, dtype in (view.rows[key] for key in keys)
    ]


def _actions(env: ExecutorEnv, tensordict: TensorDictBase) -> list[torch.Tensor]:
    actions = []
    for key, _, _ in env._action_layout:
        action = tensordict.get(key, None)
        if action is None:
            raise KeyError(f"expected an entry {key!r} in the tensordict")
        actions.append(action)
    return actions if env._states is None else [*actions, env._states.packed(tensordict)]


def _tensordict_of(env: ExecutorEnv, keys: Sequence[Key], values: Sequence[torch.Tensor]) -> TensorDict:
    entries = dict(zip(keys, values, strict=True))
    return _sized(env, TensorDict(entries, batch_size=env.batch_size, device=env.device))


def _sized(env: ExecutorEnv, tensordict: TensorDict) -> TensorDict:
    """The same, whose nested tensordicts have the batch sizes that they are to have."""
    for path, more in env._nested_sizes.items():
        below = tensordict.get(path, None) if more else None
        if below is not None:
            below.batch_size = torch.Size([*tensordict.batch_size, *more])
    return tensordict


def _entries_of(
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


def graph_reset_root(
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


def _following_root(
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


# ---- the operators: run


def step_and_reset(order: torch.Tensor, number: int, actions: Tensors, out: Tensors, root: Tensors) -> None:
    """Writes a step and the root that follows it, in the order of ``step_keys`` and ``root_keys``."""
    env = _envs[number]
    checked, addresses = _checked(env, actions)
    with _writing(env, env.step_keys, out) as written, _writing(env, env.root_keys, root) as begun:
        owner = (checked, written, begun)
        to = _addresses(written), _root_addresses(env, begun)
        if env._running().run(_core.Op.step_and_reset, addresses, *to, owner) == 0:
            # The executor leaves the root to its caller then.
            by_key = dict(zip(env.step_keys, written, strict=True))
            torch._foreach_copy_(list(begun), [by_key[key] for key in env.root_keys])


def step(
    order: torch.Tensor,
    number: int,
    actions: Tensors,
    mask: torch.Tensor | None,
    kept: Tensors,
    kept_keys: Sequence[int],
    out: Tensors,
) -> None:
    """Writes a step; rows that the mask leaves out take over what is kept, entries of these numbers."""
    env = _envs[number]
    checked, addresses = _checked(env, actions)
    mask = _partial(env, "_step", mask)
    with _writing(env, env.step_keys, out) as written:
        if mask is not None:
            _keep(env, env.step_keys, written, kept, kept_keys)
        at = 0 if mask is None else mask.data_ptr()
        owner = (checked, written, mask)
        env._running().run(_core.Op.step, addresses, _addresses(written), [], owner, mask=at)


def reset(
    order: torch.Tensor,
    number: int,
    mask: torch.Tensor | None,
    kept: Tensors,
    kept_keys: Sequence[int],
    root: Tensors,
) -> None:
    """Writes the first rows of new episodes; those that the mask leaves out take over what is kept."""
    env = _envs[number]
    mask = _partial(env, "_reset", mask)
    with _writing(env, env.root_keys, root) as begun:
        if mask is not None:
            _keep(env, env.root_keys, begun, kept, kept_keys)
        if mask is None or mask.any():
            env._reset_envs(_root_addresses(env, begun), mask, ResetArguments(), (begun, mask))


# Defined by hand: torch.library.custom_op takes as long as some steps.
_library: Any = torch.library.Library("torchrl_pool", "DEF")  # type: ignore[no-untyped-call]
_KEPT = "Tensor? mask, Tensor[] kept, int[] kept_keys"
for _operator, _signature in (
    (step_and_reset, "Tensor(a!) order, int number, Tensor[] actions, Tensor(b!)[] out, Tensor(c!)[] root"),
    (step, f"Tensor(a!) order, int number, Tensor[] actions, {_KEPT}, Tensor(b!)[] out"),
    (reset, f"Tensor(a!) order, int number, {_KEPT}, Tensor(b!)[] root"),
):
    _name = _operator.__name__
    _library.define(f"{_name}({_signature}) -> ()")
    _library.impl(_name, _operator, "CompositeExplicitAutograd")
    # Shapes are those of the tensors that it is given.
    torch.library.register_fake(f"torchrl_pool::{_name}", lambda *_: None, lib=_library)


@contextmanager
def _writing(env: ExecutorEnv, keys: Sequence[Key], given: Tensors) -> Iterator[Tensors]:
    """Where the executor writes what is for these tensors: they themselves, unless they are elsewhere."""
    env._allocator.latest = {}  # a graph may use this memory again
    try:
        if env._on_cpu:
            yield given
            return
        templates = env._allocator.step_prototypes
        rows = [torch.empty_like(templates[key], pin_memory=env._pin_memory) for key in keys]
        yield rows
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    for to, value in zip(given, rows, strict=True):
        to.copy_(value, non_blocking=True)


def _root_addresses(env: ExecutorEnv, tensors: Sequence[torch.Tensor]) -> list[int]:
    """Of all columns, for tensors in the order of ``root_keys``."""
    return env._allocator._root.addresses_of(tensors)


def _addresses(values: Tensors) -> list[int]:
    return [value.data_ptr() for value in values]


def _checked(env: ExecutorEnv, actions: Tensors) -> tuple[list[torch.Tensor], list[int]]:
    keys = [key for key, _, _ in env._action_layout]
    given = _tensordict(env, keys, actions[: len(keys)])
    if len(actions) == len(keys):
        return env._check_actions(given)
    checked, addresses = env._check_closely(given, None)
    return [*checked, actions[-1]], [*addresses, actions[-1].data_ptr()]  # states, packed in the graph


def _partial(env: ExecutorEnv, name: str, mask: torch.Tensor | None) -> torch.Tensor | None:
    """A mask that leaves out rows, as the executor reads it."""
    if mask is None:
        return None
    mask = check_mask(name, mask, env.num_envs)
    return None if mask.all() else mask


def _keep(
    env: ExecutorEnv, keys: Sequence[Key], written: Tensors, kept: Tensors, kept_keys: Sequence[int]
) -> None:
    values = _tensordict(env, [keys[number] for number in kept_keys], kept)
    env._allocator.keep_from(dict(zip(keys, written, strict=True)), values)


def _tensordict(env: ExecutorEnv, keys: Sequence[Key], values: Tensors) -> TensorDict:
    return env._unsafe(dict(zip(keys, values, strict=True)))
