"""``gymnasium.make`` as what makes an env, in a process without torch."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from torchrl_pool._processes.registered_ids import register_rest

_WHERE_TO_REGISTER = (
    "Where a package registers it, name that first, as in 'gymnasium:minigrid:MiniGrid-Empty-8x8-v0',"
    " or import it within the function that makes the env; with workers that function runs there, and can "
    "register what cannot be pickled, too."
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


def made_by(factory: Callable[[], Any]) -> Any:
    """What a factory makes. If it asks for an id that is unknown, it is called again once all are known.

    Not before: packages that register theirs when they are imported would warn that these are there already.
    """
    try:
        return factory()
    except Exception as error:
        if not _is_of_unknown_id(error):
            raise
        if not register_rest():
            if not isinstance(error, NotRegistered):
                error.add_note(_WHERE_TO_REGISTER)
            raise
    return made_by(factory)


def _is_of_unknown_id(error: Exception) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return isinstance(error, NotRegistered) or (
        gymnasium is not None and isinstance(error, gymnasium.error.UnregisteredEnv)
    )
