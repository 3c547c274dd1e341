"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def make_gymnasium(env_id: str, options: Mapping[str, Any]) -> Any:
    """The env of this id.

    Raises:
        ImportError: Gymnasium is not installed.
    """
    import gymnasium

    return gymnasium.make(env_id, **options)


def hint_at_registration(error: Exception) -> None:
    """Has an error that an id is unknown say where it is to be registered."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and isinstance(error, gymnasium.error.UnregisteredEnv):
        error.add_note(
            "Where a package registers it, name that first, as in 'gymnasium:minigrid:MiniGrid-Empty-8x8-v0',"
            " or import it within the function that makes the env; "
            "what __main__ registers, that function registers, too: envs are made in processes of their own."
        )
