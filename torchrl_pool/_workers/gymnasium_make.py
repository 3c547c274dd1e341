"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

_WHERE_TO_REGISTER = (
    "Where a package registers it, name that first, as in 'gymnasium:minigrid:MiniGrid-Empty-8x8-v0',"
    " or import it within the function that makes the env; "
    "what __main__ registers, that function registers, too: envs are made in processes of their own."
)


class NotRegistered(Exception):
    """An id that Gymnasium refuses, in a sentence that needs no traceback."""


def make_gymnasium(env_id: str, options: Mapping[str, Any]) -> Any:
    """The env of this id.

    Raises:
        ImportError: Gymnasium is not installed.
        NotRegistered: it has no such id, or that of a package which is not installed.
    """
    import gymnasium

    try:
        return gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        # What the registry itself raises is about the id; what an env raises needs its traceback.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        if any(frame.filename != gymnasium.envs.registration.__file__ for frame in frames):
            raise
        hint = f"\n{_WHERE_TO_REGISTER}" if isinstance(error, gymnasium.error.UnregisteredEnv) else ""
        raise NotRegistered(f"task 'gymnasium:{env_id}': {error}{hint}") from None


def hint_at_registration(error: Exception) -> None:
    """Has an error that an id is unknown say where it is to be registered."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and isinstance(error, gymnasium.error.UnregisteredEnv):
        error.add_note(_WHERE_TO_REGISTER)
