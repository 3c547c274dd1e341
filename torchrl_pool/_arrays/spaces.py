"""Gymnasium's spaces for what a pool reads and writes, and batches of their values as columns of arrays."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from torchrl_pool import _core
from torchrl_pool._texts import decode_text
from torchrl_pool._workers.spaces import holds_texts, stacks

Array: TypeAlias = NDArray[Any]
Space: TypeAlias = "spaces.Space[Any]"
# From columns of a batch, one after the other, to a batch of values, and back.
Gather: TypeAlias = Callable[[Iterator[Array]], Any]
Scatter: TypeAlias = Callable[[Any], list[Any]]


def space_of(specs: Sequence[_core.Spec]) -> Space:
    """The space of one env's entries: that of the only one, or a Dict in their order."""
    if len(specs) == 1:
        return _leaf(specs[0])
    root: OrderedDict[str, Any] = OrderedDict()
    for spec in specs:
        *above, name = spec.name.split("/")
        level = root
        for key in above:
            level = level.setdefault(key, OrderedDict())
        level[name] = _leaf(spec)
    return _nested(root)


def _nested(level: OrderedDict[str, Any]) -> Space:
    """A Dict, which would sort the keys of anything but an OrderedDict."""
    return spaces.Dict(
        OrderedDict((k, _nested(v) if isinstance(v, OrderedDict) else v) for k, v in level.items())
    )


def _leaf(spec: _core.Spec) -> Space:
    dtype, shape = np.dtype(spec.dtype), tuple(spec.shape)
    if spec.categories:
        if not shape:
            return spaces.Discrete(spec.categories[0])
        return spaces.MultiDiscrete(np.reshape(spec.categories, shape))
    if dtype == np.int8 and shape and {*spec.low} == {0} and {*spec.high} == {1}:
        return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])
    low, high = _limits(dtype)
    lows, highs = (
        np.reshape(np.array(given, dtype), shape) if given else np.full(shape, missing, dtype)
        for given, missing in ((spec.low, low), (spec.high, high))
    )
    return spaces.Box(lows, highs, shape, dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Where nothing bounds an element."""
    if dtype == np.bool_:
        return False, True
    if np.issubdtype(dtype, np.floating):
        return -np.inf, np.inf
    integers: Any = np.iinfo(dtype)
    return integers.min, integers.max


def gather_of(space: Space) -> Gather:
    """What makes a batch of observations, as ``batch_space`` has it, from the columns of the leaves."""
    match space:
        case spaces.Dict():
            parts = {key: gather_of(child) for key, child in space.spaces.items()}
            return lambda columns: {key: gather(columns) for key, gather in parts.items()}
        case spaces.Tuple():
            gathers, stacked = [gather_of(child) for child in space.spaces], stacks(space)
            if not stacked:
                return lambda columns: tuple(gather(columns) for gather in gathers)

            def split(columns: Iterator[Array]) -> tuple[Any, ...]:
                parts = [next(columns) for _ in range(stacked)]
                return tuple(gather(iter([c[:, i] for c in parts])) for i, gather in enumerate(gathers))

            return split
        case spaces.Box() if not space.shape:
            return lambda columns: next(columns).reshape(-1)
        case spaces.Discrete() | spaces.MultiDiscrete() if np.any(space.start) or space.dtype != np.int64:
            return lambda columns: (next(columns) + space.start).astype(space.dtype, copy=False)
    if holds_texts(space):
        return lambda columns: tuple(decode_text(next(columns)))
    return next


def scatter_of(space: Space, scalar: tuple[int, ...], name: str = "") -> Scatter:
    """What makes the columns of the leaves from a batch of actions; those of single numbers of this shape.

    The name is what errors say of it.
    """
    match space:
        case spaces.Dict():
            parts = {
                key: scatter_of(child, scalar, f"{name}/{key}" if name else str(key))
                for key, child in space.spaces.items()
            }
            return lambda batch: [c for key, scatter in parts.items() for c in scatter(batch[key])]
        case spaces.Tuple():
            scatters = [
                scatter_of(child, scalar, f"{name or 'action'}/{i}") for i, child in enumerate(space.spaces)
            ]
            if not stacks(space):
                return lambda batch: [c for part, scatter in _pairs(batch, scatters) for c in scatter(part)]
            return lambda batch: [
                np.stack(same, 1)
                for same in zip(*(scatter(part) for part, scatter in _pairs(batch, scatters)), strict=True)
            ]
        case spaces.Box() if not space.shape:
            return lambda batch: [np.reshape(batch, (-1, *scalar))]
        case spaces.Discrete() | spaces.MultiDiscrete() if np.any(space.start):
            return lambda batch: [_from_zero(np.asarray(batch), space, name or "action")]
    return lambda batch: [batch]


def _from_zero(batch: Array, space: spaces.Discrete | spaces.MultiDiscrete, name: str) -> Array:
    """Choices counted from zero, of a space that starts elsewhere.

    Raises:
        ValueError: the space has no such choice. What knows only numbers from zero could not say so.
    """
    start = np.asarray(space.start)
    last = start + (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
    if batch.shape[1:] == start.shape and batch.dtype.kind in "biuf":
        outside = np.argwhere((batch < start) | (batch > last))
        for env, *element in outside[:1].tolist():
            place = f", element {np.ravel_multi_index(element, start.shape)}" if element else ""
            at = tuple(element)
            raise ValueError(
                f"{name!r} of env {env}{place}: expected one of {start[at]} to {last[at]}, "
                f"got {batch[(env, *at)]}"
            )
    return batch - start


def _pairs(batch: Sequence[Any], scatters: Sequence[Scatter]) -> Iterator[tuple[Any, Scatter]]:
    return zip(batch, scatters, strict=True)


def row_of(batch: Any, index: int, space: Space) -> Any:
    """One env's value of a batch, which keeps nothing of the batch alive; a choice is an int."""
    match space:
        case spaces.Dict():
            return {key: row_of(batch[key], index, child) for key, child in space.spaces.items()}
        case spaces.Tuple():
            return tuple(row_of(part, index, child) for part, child in zip(batch, space.spaces, strict=True))
        case spaces.Discrete() if space.dtype == np.int64:
            return int(batch[index])
    row = batch[index]
    return row.copy() if isinstance(row, np.ndarray) else row
