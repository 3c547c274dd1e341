"""Gymnasium's spaces as entries, with the names, shapes and dtypes of TorchRL's ``GymEnv``.

A Dict's keys nest; at the root they stand for themselves. A Tuple of like spaces becomes one entry for each
of their leaves, stacked; of unlike ones, for which TorchRL has no tensor, entries named for their places. A
Box without dimensions has shape ``(1,)``. Discrete values are int64 and count from zero in tensors: the env
still gets, and gives, values of its space. A Text that is observed, or what else holds strings, becomes its
characters: uint8, in UTF-8, with zeros behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from torchrl_pool._texts import TextEncoder
from torchrl_pool._workers.entries import Entry, bounds_of

Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[Iterator[Any]], Any]

_TEXT_BYTES = 512  # of a space that doesn't say how long its strings are


@dataclass(frozen=True)
class Leaf:
    """One entry of a space, and how it is read from a value of the space; None: the value is the leaf."""

    entry: Entry
    read: Read | None


def leaves_of(space: spaces.Space[Any], role: str, path: tuple[str, ...] = ()) -> list[Leaf]:
    """The leaves of a space.

    Raises:
        TypeError: tensors cannot hold the values of the space.
    """
    match space:
        case spaces.Dict():
            return [
                replace(leaf, read=_then(itemgetter(key), leaf.read))
                for key, child in space.spaces.items()
                for leaf in leaves_of(child, role, (*path, key))
            ]
        case spaces.Tuple():
            return _leaves_of_tuple(space, role, path)
    name = "/".join(map(str, path or (role,)))
    dtype, shape = str(space.dtype), space.shape or ()
    match space:
        case spaces.Box():
            read = None if shape else _as_vector
            return [Leaf(Entry(name, role, dtype, shape or (1,), **_bounds(space)), read)]
        case spaces.Discrete():
            entry = Entry(name, role, "int64", (), categories=(int(space.n),))
            return [Leaf(entry, _minus(int(space.start)) if space.start else None)]
        case spaces.MultiDiscrete():
            entry = Entry(name, role, "int64", shape, categories=tuple(space.nvec.ravel().tolist()))
            return [Leaf(entry, _minus(space.start.astype(np.int64)) if space.start.any() else None)]
        case spaces.MultiBinary():
            count = int(np.prod(shape))
            return [Leaf(Entry(name, role, dtype, shape, (0.0,) * count, (1.0,) * count), None)]
    if role == "observation" and holds_texts(space):
        length = _bytes_of_text(space)
        return [Leaf(Entry(name, role, "uint8", (length,)), TextEncoder(name, length))]
    raise TypeError(f"{role} {name!r}: tensors cannot hold values of {space}")


def check_parts(space: spaces.Space[Any], value: Any, path: tuple[Any, ...] = ()) -> None:
    """Whether an observation has all parts of its space.

    Raises:
        ValueError: it lacks one.
        TypeError: it has none.
    """
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return
    parts: Any = space.spaces
    whole = f"entry {'/'.join(map(str, path))!r}" if path else "the observation"
    if not isinstance(value, Mapping if isinstance(space, spaces.Dict) else Sequence):
        raise TypeError(f"{whole}: expected one of {space}, got {type(value).__name__}")
    there, needed = (
        list(one if isinstance(space, spaces.Dict) else range(len(one))) for one in (value, parts)
    )
    for key in needed:
        if key not in there:
            name, has = "/".join(map(str, (*path, key))), ", ".join(map(repr, there)) or "nothing"
            raise ValueError(f"entry {name!r}: missing; {whole} has {has}")
        check_parts(parts[key], value[key], (*path, key))


def holds_texts(space: spaces.Space[Any]) -> bool:
    """Whether its values are strings: a Text, or one of another package's, such as MiniGrid's missions."""
    return space.dtype is not None and np.issubdtype(space.dtype, np.str_)


def _bytes_of_text(space: spaces.Space[Any]) -> int:
    if not isinstance(space, spaces.Text):
        return _TEXT_BYTES
    widest = max((len(char.encode()) for char in space.character_set), default=1)
    return max(space.max_length * widest, 1)


def writer_of(space: spaces.Space[Any]) -> Write | None:
    """What makes a value of the space from its leaves, in their order; None: the one leaf is the value."""
    match space:
        case spaces.Dict():
            writers = {key: writer_of(child) or next for key, child in space.spaces.items()}
            return lambda leaves: {key: write(leaves) for key, write in writers.items()}
        case spaces.Tuple():
            return _writer_of_tuple(space)
        case spaces.Box() if not space.shape:
            return lambda leaves: next(leaves).reshape(())
        case spaces.Discrete() if space.start or space.dtype != np.int64:
            start, dtype = np.int64(space.start), space.dtype.type
            return lambda leaves: dtype(next(leaves) + start)
        case spaces.MultiDiscrete() if space.start.any() or space.dtype != np.int64:
            starts = space.start.astype(np.int64)
            return lambda leaves: (next(leaves) + starts).astype(space.dtype)
    return None


def stacks(space: spaces.Tuple[Any]) -> int:
    """How many entries hold the leaves of a Tuple's parts, stacked; 0: each leaf has one of its own."""
    parts = [leaves_of(child, "part") for child in space.spaces]
    return len(parts[0]) if _are_alike(parts) else 0


def _leaves_of_tuple(space: spaces.Tuple[Any], role: str, path: tuple[str, ...]) -> list[Leaf]:
    parts = [leaves_of(child, role, path) for child in space.spaces]
    if _are_alike(parts):
        return [_stacked(same) for same in zip(*parts, strict=True)]
    place = path or (role,)
    return [
        replace(leaf, read=_then(itemgetter(i), leaf.read))
        for i, child in enumerate(space.spaces)
        for leaf in leaves_of(child, role, (*place, str(i)))
    ]


def _writer_of_tuple(space: spaces.Tuple[Any]) -> Write:
    writers = [writer_of(child) or next for child in space.spaces]
    count = stacks(space)
    if not count:
        return lambda leaves: tuple(write(leaves) for write in writers)

    def write(leaves: Iterator[Any]) -> tuple[Any, ...]:
        stacked = [next(leaves) for _ in range(count)]
        return tuple(write(iter([leaf[i] for leaf in stacked])) for i, write in enumerate(writers))

    return write


def _are_alike(parts: Sequence[Sequence[Leaf]]) -> bool:
    """Whether the leaves of all parts can be stacked."""
    kinds = [[_kind(leaf.entry) for leaf in leaves] for leaves in parts]
    return bool(kinds) and all(kind == kinds[0] for kind in kinds)


def _kind(entry: Entry) -> tuple[Any, ...]:
    return entry.name, entry.dtype, entry.shape, bool(entry.categories)


def _stacked(leaves: Sequence[Leaf]) -> Leaf:
    entries = [leaf.entry for leaf in leaves]
    bounds: dict[str, Any] = {}
    if any(entry.low for entry in entries):
        lows, highs = zip(*map(_exactly, entries), strict=True)
        bounds = bounds_of(sum(lows, ()), sum(highs, ()))
    categories = sum((entry.categories for entry in entries), ())
    reads = [leaf.read or (lambda value: value) for leaf in leaves]
    return Leaf(
        replace(entries[0], shape=(len(leaves), *entries[0].shape), categories=categories, **bounds),
        lambda value: np.stack([read(part) for read, part in zip(reads, value, strict=True)]),
    )


def _exactly(entry: Entry) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Its bounds, of each element."""
    if entry.low:
        return entry.integers or (entry.low, entry.high)
    is_float, count = entry.dtype.startswith("float"), int(np.prod(entry.shape))
    least, most = (-np.inf, np.inf) if is_float else (np.iinfo(entry.dtype).min, np.iinfo(entry.dtype).max)
    return (least,) * count, (most,) * count


def _bounds(space: spaces.Box) -> dict[str, Any]:
    """None where no element has a bound that the dtype of tensors has not."""
    if space.dtype != bool:
        is_float = np.issubdtype(space.dtype, np.floating)
        limits: Any = np.finfo(space.dtype) if is_float else np.iinfo(space.dtype)
        if (space.low <= limits.min).all() and (space.high >= limits.max).all():
            return {}
    return bounds_of(space.low.ravel().tolist(), space.high.ravel().tolist())


def _then(first: Read, second: Read | None) -> Read:
    return first if second is None else lambda value: second(first(value))


def _minus(start: Any) -> Read:
    return lambda value: value - start


def _as_vector(value: Any) -> Any:
    return np.reshape(value, (1,))
