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

    try:
        return gymnasium.make(env_id, **options)
    except gymnasium.error.UnregisteredEnv as error:
        if ":" not in env_id:
            error.add_note(
                "Where a package registers it, name that first, as in "
                "'gymnasium:minigrid:MiniGrid-Empty-8x8-v0': envs are made in processes of their own."
            )
        raise
