"""The attributes of an object, taken from it and given to another one of its class."""

from __future__ import annotations

import copyreg
from typing import Any


def attributes_of(obj: Any) -> dict[str, Any]:
    """Of its dictionary and of slots."""
    slots = copyreg._slotnames(type(obj))  # type: ignore[attr-defined]
    own = getattr(obj, "__dict__", {})
    return {**own, **{name: getattr(obj, name) for name in slots if hasattr(obj, name)}}


def become(obj: Any, attributes: dict[str, Any]) -> None:
    """Gives an object that was made empty what :func:`attributes_of` has of another."""
    for name, value in attributes.items():
        object.__setattr__(obj, name, value)
