"""What a pool wants of its envs of Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wishes:
    """What a pool wants of its envs, all of them.

    Attributes:
        info_keys: infos of Gymnasium's envs that are entries; ``/`` separates nested levels.
        infos: infos that are passed on as they are, beside the entries, named likewise; ``None``: all.
        apart: whether entries have names of their own (:func:`~torchrl_pool._workers.entries.apart`), since
            nobody sees them; otherwise names are the keys of tensordicts.
        max_episode_steps: of the pool; 0: it has no limit.
    """

    info_keys: tuple[str, ...] = ()
    infos: tuple[str, ...] | None = ()
    apart: bool = False
    max_episode_steps: int = 0

    @property
    def hears_of_episodes(self) -> bool:
        """Whether somebody is told what wrappers say of an episode that has ended."""
        keys = (*self.info_keys, *(("episode",) if self.infos is None else self.infos))
        return any(key.split("/")[0] == "episode" for key in keys)

    def chosen(self, info: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What of an info dict is passed on."""
        if self.infos is None:
            return info
        found: dict[Any, Any] = {}
        for name in self.infos:
            if name in info:
                found[name] = info[name]
            else:
                _copy_nested(info, name.split("/"), found)
        return found


def _copy_nested(info: Any, path: list[str], found: dict[Any, Any]) -> None:
    *above, last = path
    for key in above:
        info = info.get(key) if isinstance(info, Mapping) else None
    if not isinstance(info, Mapping) or last not in info:
        return
    for key in above:
        found = found.setdefault(key, {})
    found[last] = info[last]
