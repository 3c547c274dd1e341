"""The pool's calls as operators of torch, which torch.compile puts into its graphs as they are.

A compiled function cannot look into the executor. It sees operators that read actions, write into tensors
that the graph has allocated, and change the env's ``order``, a tensor that nothing else touches: so none of
them is left out, done twice or moved past another.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.lifecycle import LifeMethods
from torchrl_pool._env.specs import Key

# Operators take numbers, not objects.
_envs: weakref.WeakValueDictionary[int, LifeMethods] = weakref.WeakValueDictionary()
_numbers = itertools.count()

Tensors = Sequence[torch.Tensor]


def register(env: LifeMethods) -> int:
    """The number by which operators know an env."""
    number = next(_numbers)
    _envs[number] = env
    return number


def step_and_reset(order: torch.Tensor, number: int, actions: Tensors, out: Tensors, root: Tensors) -> None:
    """Writes a step and the root that follows it, in the order of ``step_keys`` and ``root_keys``."""
    env = _envs[number]
    checked, addresses = _checked(env, actions)
    with _writing(env, env.step_keys, out) as written, _writing(env, env.root_keys, root) as begun:
        owner = (checked, written, begun)
        if env._running().step_and_reset(addresses, _addresses(written), _addresses(begun), owner, None) == 0:
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
        env._running().step(addresses, _addresses(written), at, (checked, written, mask))


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
            env._reset_envs(
                _addresses(begun), mask, env._source.reset_arguments(None, None, None), (begun, mask)
            )


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
def _writing(env: LifeMethods, keys: Sequence[Key], given: Tensors) -> Iterator[Tensors]:
    """Where the executor writes what is for these tensors: they themselves, unless they are elsewhere."""
    env._allocator.latest = {}  # a graph may use this memory again
    try:
        if env._on_cpu:
            yield given
            return
        templates = env._allocator.step_templates
        rows = [torch.empty_like(templates[key], pin_memory=env._pin_memory) for key in keys]
        yield rows
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    for to, value in zip(given, rows, strict=True):
        to.copy_(value, non_blocking=True)


def _addresses(values: Tensors) -> list[int]:
    return [value.data_ptr() for value in values]


def _checked(env: LifeMethods, actions: Tensors) -> tuple[list[torch.Tensor], list[int]]:
    keys = [key for key, _, _ in env._action_layout]
    given = _tensordict(env, keys, actions[: len(keys)])
    if len(actions) == len(keys):
        return env._check_actions(given)
    checked, addresses = env._check_closely(given, None)
    return [*checked, actions[-1]], [*addresses, actions[-1].data_ptr()]  # states, packed in the graph


def _partial(env: LifeMethods, name: str, mask: torch.Tensor | None) -> torch.Tensor | None:
    """A mask that leaves out rows, as the executor reads it."""
    if mask is None:
        return None
    mask = check_mask(name, mask, env.num_envs)
    return None if mask.all() else mask


def _keep(
    env: LifeMethods, keys: Sequence[Key], written: Tensors, kept: Tensors, kept_keys: Sequence[int]
) -> None:
    values = _tensordict(env, [keys[number] for number in kept_keys], kept)
    env._allocator.keep_from(dict(zip(keys, written, strict=True)), values)


def _tensordict(env: LifeMethods, keys: Sequence[Key], values: Tensors) -> TensorDict:
    return env._unsafe(dict(zip(keys, values, strict=True)))
