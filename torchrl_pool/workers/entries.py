"""What an env reads and writes: one entry per tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"})
ROLES = ("action", "observation", "reward", "done", "info")
_FLAGS = ("done", "terminated", "truncated")  # of the whole env, which every env has without an entry
_TORCHRLS = ("next", "_reset", "_step")  # what its tensordicts hold besides


@dataclass(frozen=True)
class Entry:
    """One tensor of one env, without a batch dimension.

    Attributes:
        name: the tensordict's key; ``/`` separates nested levels.
        role: ``"action"``, ``"observation"``, ``"reward"``, ``"done"`` or ``"info"``.
        dtype: NumPy's name for it, one of :data:`DTYPES`.
        shape: without the batch.
        low: least value of each element, in C order; empty: unbounded.
        high: greatest value, likewise.
        categories: numbers of choices of a discrete entry, which has no bounds: one per element.

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

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            known = ", ".join(sorted(DTYPES))
            raise TypeError(
                f"{self.role} {self.name!r}: expected one of the dtypes {known}, got {self.dtype}"
            )


def joined(keys: Sequence[str]) -> str:
    """The entry's name for a key of nested tensordicts.

    Raises:
        ValueError: a key holds the separator.
    """
    for key in keys:
        if "/" in key:
            raise ValueError(f"key {key!r}: '/' separates nested levels and cannot be part of a key")
    return "/".join(keys)


def check_names(entries: Iterable[Entry]) -> None:
    """Each name stands once, and nothing lies below a tensor.

    Raises:
        ValueError: two entries share a name, one lies below another, or a name is a flag's or TorchRL's.
    """
    roles: dict[str, str] = {}
    for entry in entries:
        if entry.name in _FLAGS:
            raise ValueError(f"{entry.role} {entry.name!r}: this name is that of a flag of the whole env")
        if entry.name.partition("/")[0] in _TORCHRLS:
            raise ValueError(f"{entry.role} {entry.name!r}: TorchRL's own entries have this name")
        if entry.name in roles:
            raise ValueError(f"{entry.role} {entry.name!r}: its name is taken, by the {roles[entry.name]}")
        roles[entry.name] = entry.role
    for name, role in roles.items():
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if (above := "/".join(parts[:depth])) in roles:
                raise ValueError(f"{role} {name!r} would lie below {roles[above]} {above!r}")
