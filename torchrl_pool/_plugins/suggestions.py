"""Suggestions for the ids of tasks that are not registered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# What Gym, Gymnasium and EnvPool put around the name of a game: PongNoFrameskip-v4, Pong-ram-v4, Pong-v5.
_ID = re.compile(
    r"(?:(?P<namespace>.*)/)?(?P<name>.+?)(?P<ram>-ram)?(NoFrameskip|Deterministic)?(-v(?P<version>\d+))?$"
)


def suggestion(task: str, known: Iterable[str]) -> str:
    """What to answer to ``task``: tasks of that name in other versions or libraries, else similar ones.

    Examples:
        >>> suggestion("Taxi-v3", ["ALE/Boxing-v5", "Taxi-v4"])
        "did you mean 'Taxi-v4'?"
        >>> suggestion("PongNoFrameskip-v4", ["ALE/Pong-v5"])
        "did you mean 'ALE/Pong-v5', with repeat_action_probability=0.0?"
    """
    by_name: dict[str, list[str]] = {}
    for id in sorted(
        known, key=lambda id: (_part(id, "namespace") == _part(task, "namespace"), _version(id))
    ):
        by_name.setdefault(_name(id), []).insert(0, id)
    asked = _name(task)
    if asked in by_name:
        names = [asked]
    else:
        parts = [name for name in by_name if len(asked) > 2 and asked in name]
        names = parts + difflib.get_close_matches(asked, by_name.keys() - parts, n=3, cutoff=0.7)
        namespace = _part(task, "namespace")
        names.sort(key=lambda name: all(_part(id, "namespace") != namespace for id in by_name[name]))
    near = [id for name in names for id in by_name[name]][:3]
    if not near:
        return (
            "list_tasks() and `torchrl-pool list` name all; 'gymnasium:ID' makes an env that Gymnasium has "
            "registered"
        )
    return (
        f"did you mean {' or '.join(map(repr, near))}{_options(task) if near[0].startswith('ALE/') else ''}?"
    )


def _options(task: str) -> str:
    """What makes a v5 game the one that an older id names."""
    options = []
    if _part(task, "version") == "4":
        options.append("repeat_action_probability=0.0")
    if _part(task, "ram"):
        options.append("obs_type='ram'")
    return f", with {' and '.join(options)}" if options else ""


def _name(id: str) -> str:
    return _part(id, "name").replace("_", "").lower()


def _version(id: str) -> int:
    return int(_part(id, "version") or -1)


def _part(id: str, part: str) -> str:
    found = _ID.fullmatch(id)
    return (found[part] or "") if found else ""
