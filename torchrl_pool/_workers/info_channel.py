"""Infos on their way from envs to the pool's caller, beside the rows: whole dicts, whatever is in them.

The pool's caller reads them between two calls, and workers write in calls only. A worker process writes into
memory that grows with what is to be told:

    end (8 bytes) | env, whether of a reset, size | pickled info | env, … | …

An env with nothing to tell costs nothing.
"""

from __future__ import annotations

import copy
import mmap
import os
import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

_END = struct.Struct("=Q")
_RECORD = struct.Struct("=IIQ")
_FIRST_SIZE = 1 << 16
_CONSTANTS = (str, bytes, int, float, complex, bool, type(None), np.generic)

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
        self._told.append((env, is_reset, {key: copied(value) for key, value in info.items()}))

    def take(self) -> Told:
        told, self._told = self._told, []
        return told


class SharedChannel:
    """Between two processes.

    Args:
        descriptor: of the memory, which both sides have.
        dumps: what pickles an info.
    """

    def __init__(self, descriptor: int, dumps: Callable[[Any], bytes] = pickle.dumps) -> None:
        self._descriptor = descriptor
        self._dumps = dumps
        if os.fstat(descriptor).st_size == 0:
            os.ftruncate(descriptor, _FIRST_SIZE)
            self._memory = mmap.mmap(descriptor, _FIRST_SIZE)
            self._set_end(_END.size)
        else:
            self._memory = self._mapped()

    def tell(self, env: int, is_reset: bool, info: Mapping[Any, Any]) -> None:
        try:
            data = self._dumps(dict(info))
        except Exception as error:
            raise TypeError(
                f"infos {', '.join(map(repr, info))}: expected what can be pickled, since they come from a "
                f"worker process; info_keys names those that are wanted, () wants none: {error}"
            ) from error
        start = self._end() + _RECORD.size
        end = start + len(data)
        if end > len(self._memory):
            os.ftruncate(self._descriptor, 2 * end)
            self._memory = self._mapped()
        _RECORD.pack_into(self._memory, start - _RECORD.size, env, is_reset, len(data))
        self._memory[start:end] = data
        self._set_end(end)

    def take(self) -> Told:
        place, end = _END.size, self._end()
        if place == end:
            return []
        if end > len(self._memory):
            self._memory = self._mapped()
        told: Told = []
        view = memoryview(self._memory)
        while place < end:
            env, is_reset, size = _RECORD.unpack_from(view, place)
            place += _RECORD.size
            told.append((env, bool(is_reset), pickle.loads(view[place : place + size])))
            place += size
        self._set_end(_END.size)
        return told

    def _end(self) -> int:
        end: int = _END.unpack_from(self._memory)[0]
        return end

    def _set_end(self, end: int) -> None:
        _END.pack_into(self._memory, 0, end)

    def _mapped(self) -> mmap.mmap:
        return mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size)


def copied(value: Any) -> Any:
    """A copy of an info that shares nothing that changes, of what can be copied."""
    if isinstance(value, _CONSTANTS):
        return value
    kind = type(value)
    if kind is np.ndarray and value.dtype != object:
        return value.copy()
    if kind is dict:
        return {key: copied(one) for key, one in value.items()}
    if kind in (list, tuple):
        return kind(map(copied, value))
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, say, or a generator
        return value
