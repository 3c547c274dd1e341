"""What an env reads and writes: one entry per tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

STATES = "states of the env"
"""The name of the action that is none: of what envs read besides, as bytes."""
DTYPES = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)


@dataclass(frozen=True)
class Entry:
    """One tensor of one env, without a batch dimension.

    Attributes:
        name: the tensordict's key; ``/`` separates nested levels.
        role: ``"action"``, ``"state"``, ``"observation"``, ``"reward"``, ``"done"`` or ``"info"``.
        dtype: NumPy's name for it, one of :data:`DTYPES`.
        shape: without the batch.
        low: least value of each element, in C order; empty: unbounded.
        high: greatest value, likewise.
        categories: numbers of choices of a discrete entry, which has no bounds: one per element, or per
            one-hot vector.
        one_hot: whether it holds one-hot vectors, one after the other along the last dimension.
        integers: the same as ``(low, high)``, exactly, where doubles do not hold them; they hold more then.

    Raises:
        TypeError: the dtype is none of those.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    categories: tuple[int, ...] = ()
    one_hot: bool = False
    integers: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def num_bytes(self) -> int:
        """Of one env's."""
        return int(np.dtype(self.dtype).itemsize * math.prod(self.shape))

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            known = ", ".join(sorted(DTYPES))
            raise TypeError(
                f"{self.role} {self.name!r}: expected one of the dtypes {known}, got {self.dtype}"
            )


Numbers: TypeAlias = Sequence[float]


def bounds_of(low: Numbers, high: Numbers) -> dict[str, Any]:
    """Bounds in C order, as arguments of an :class:`Entry`."""
    rounded = {"low": tuple(map(_at_most, low)), "high": tuple(-_at_most(-value) for value in high)}
    if rounded == {"low": tuple(low), "high": tuple(high)}:
        return rounded
    return {**rounded, "integers": (tuple(map(int, low)), tuple(map(int, high)))}


def _at_most(value: float) -> float:
    """The greatest double that is no greater than a number."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if nearest > value else nearest


def joined(keys: Sequence[str]) -> str:
    """The entry's name for a key of nested tensordicts.

    Raises:
        TypeError: a key is no string.
        ValueError: a key holds the separator.
    """
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"key {key!r}: expected a string, as all keys of tensordicts are")
        if "/" in key:
            raise ValueError(f"key {key!r}: '/' separates nested levels and cannot be part of a key")
    return "/".join(keys)


def apart(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries under names that no two share, whatever keys the env has chosen for them.

    Each has its role and its own name in it, for messages: the action ``"position"`` becomes
    ``"action.position"``. A reward, and what is the only one of its role, keeps its role's name.
    """
    seen: set[str] = set()
    renamed = []
    for entry in entries:
        own = "" if entry.name == entry.role else "." + entry.name.replace("/", ".")
        name = entry.role + own
        while name in seen:
            name += "_"
        seen.add(name)
        renamed.append(replace(entry, name=name))
    return renamed


def mismatch(entries: Sequence[Entry], expected: Sequence[Entry]) -> str:
    """Why an env with these entries cannot be in one pool with env 0; empty where it can."""
    if len(entries) != len(expected):
        return f"env 0 has {_names(expected)}, this one has {_names(entries)}"
    for ours, theirs in zip(entries, expected, strict=True):
        if _kind(ours) != _kind(theirs):
            return f"env 0 has {_kind(theirs)}, this one has {_kind(ours)}"
    return ""


def _names(entries: Sequence[Entry]) -> str:
    return ", ".join(repr(entry.name) for entry in entries)


def _kind(entry: Entry) -> str:
    choices = f" of {list(entry.categories)} choices" if entry.categories else ""
    return f"the {entry.role} {entry.name!r}, {entry.dtype} {list(entry.shape)}{choices}"
