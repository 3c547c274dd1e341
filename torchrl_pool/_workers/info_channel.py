"""Infos on their way from envs to the pool's caller, beside the rows: whole dicts, whatever is in them.

The pool's caller reads them between two calls, and workers write in calls only. An env with nothing to tell
costs nothing.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

_END = struct.Struct("=Q")

Told: TypeAlias = "list[tuple[int, bool, dict[Any, Any]]]"
"""Of which env, whether of a reset, and what."""


class InfoChannel(Protocol):
    """What infos go through."""

    def tell(self, env: int, is_reset: bool, info: Mapping[Any, Any]) -> None:
        """Takes an env's info, and nothing of it that the env may change later."""

    def take(self) -> Told:
        """What has been told since the last time, in that order."""


class LocalChannel:
    """Within one process."""

    def __init__(self) -> None:
        self._told: Told = []

    def tell(self, env: int, is_reset: bool, info: Mapping[Any, Any]) -> None:
        self._told.append((env, is_reset, {key: _copied(value) for key, value in info.items()}))

    def take(self) -> Told:
        told, self._told = self._told, []
        return told


class SharedChannel:
    """Between two processes, in memory that both have a descriptor of.

    It holds the place where it ends (8 bytes), and then what was told, each pickled. That place is written
    last: what a killed worker was about to tell is not there.

    Args:
        descriptor: of the memory.
        dumps: what pickles an info.
    """

    def __init__(self, descriptor: int, dumps: Callable[[Any], bytes] = pickle.dumps) -> None:
        self._descriptor = descriptor
        self._dumps = dumps

    def tell(self, env: int, is_reset: bool, info: Mapping[Any, Any]) -> None:
        try:
            data = self._dumps((env, is_reset, dict(info)))
        except Exception as error:
            raise TypeError(
                f"infos {', '.join(map(repr, info))}: expected what can be pickled, since they come from a "
                f"worker process; info_keys names those that are wanted, () wants none: {error}"
            ) from error
        end = self._end()
        os.pwrite(self._descriptor, data, end)
        self._set_end(end + len(data))

    def take(self) -> Told:
        size = self._end() - _END.size
        if size == 0:
            return []
        data = io.BytesIO(os.pread(self._descriptor, size, _END.size))
        told: Told = []
        while data.tell() < size:
            told.append(pickle.load(data))
        self._set_end(_END.size)
        return told

    def _end(self) -> int:
        data = os.pread(self._descriptor, _END.size, 0)
        return int(_END.unpack(data)[0]) if data else _END.size  # it is empty until something is told

    def _set_end(self, end: int) -> None:
        os.pwrite(self._descriptor, _END.pack(end), 0)


def _copied(value: Any) -> Any:
    """A copy of an info, where it can be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, say, or a generator
        return value
