"""Copying and pickling the vector envs: from their arguments, until their first reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchrl_pool._arrays.array_pool import ArrayPool


def remake(
    front: Any, pool: ArrayPool, make: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, ...]:
    """What ``__reduce__`` returns: what makes another front with another pool, and what else this one holds.

    Raises:
        TypeError: envs have begun, or were changed, which another pool's would not know of.
    """
    if not pool.is_fresh:
        raise TypeError(
            f"{front!r} cannot be pickled or copied after its envs were reset or changed, for simulators "
            "cannot be copied: do so before the first reset"
        )
    own = {name: value for name, value in vars(front).items() if value is not pool}
    return make, arguments, own
