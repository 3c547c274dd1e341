"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def make_gymnasium(env_id: str, options: Mapping[str, Any]) -> Any:
    """The env of this id.

    Raises:
        ImportError: Gymnasium is not installed.
    """
    import gymnasium

    return gymnasium.make(env_id, **options)
