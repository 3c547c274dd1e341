"""Texts in tensors: characters as uint8, in UTF-8, with zeros behind the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NUMBERED_BY_MINIGRID = """
red green blue yellow purple grey unseen empty wall floor box key ball door goal agent lava pick avoid get
find put use open go fetch reach unlock traverse up the a at , square and then to of rooms near opening must
you matching end hallway object from room maze
"""
_OF_BABYAI_BESIDES = "next after in front behind on your left right"
MISSION_WORDS: tuple[str, ...] = ("", *_NUMBERED_BY_MINIGRID.split(), *_OF_BABYAI_BESIDES.split())
"""What the numbers of MiniGrid's ``mission="words"`` stand for; 0 is no word.

From 1 on they are minigrid's words in its own order, then those of BabyAI's missions that it does not number.
"""
_WORDS_OF_A_MISSION = 50


def decode_text(chars: Any) -> Any:
    """The strings that an entry of characters, or of words of MiniGrid's missions, holds.

    Args:
        chars: uint8 ``[..., length]``, a tensor or an array: what :class:`~torchrl_pool.PoolEnv` gives for a
            mission of MiniGrid's and for a Python env's ``Text``. Or int64 ``[..., 50]``: what it gives for
            a mission with ``mission="words"``, numbers that :data:`MISSION_WORDS` lists.

    Returns:
        A string for ``[length]``; for each dimension before that, a list.

    Raises:
        TypeError: other than uint8 and int64.
        ValueError: a dimension is missing, the bytes are no UTF-8, or the numbers are no mission's.

    Examples:
        >>> from torchrl_pool import PoolEnv, decode_text
        >>> env = PoolEnv("MiniGrid-Fetch-5x5-N2-v0", num_envs=2, seed=0)
        >>> missions = decode_text(env.reset()["mission"])
        >>> env = PoolEnv("MiniGrid-Fetch-5x5-N2-v0", num_envs=2, seed=0, mission="words")
        >>> decode_text(env.reset()["mission"]) == missions
        True
    """
    array = np.asarray(chars.detach().cpu() if hasattr(chars, "detach") else chars)
    if array.dtype not in (np.uint8, np.int64):
        raise TypeError(
            f"expected characters as uint8, or words of missions as int64 [..., 50], got {array.dtype}"
        )
    if array.ndim == 0:
        raise ValueError("expected characters of shape [..., length], got a single number")
    return _decoded(array, _characters if array.dtype == np.uint8 else _words)


def _decoded(array: NDArray[Any], decode: Callable[[NDArray[Any]], str]) -> Any:
    if array.ndim > 1:
        return [_decoded(part, decode) for part in array]
    return decode(array)


def _characters(array: NDArray[np.uint8]) -> str:
    return array.tobytes().rstrip(b"\0").decode()


def _words(numbers: NDArray[np.int64]) -> str:
    count = np.count_nonzero(numbers)
    known = ((numbers >= 0) & (numbers < len(MISSION_WORDS))).all()
    if numbers.shape != (_WORDS_OF_A_MISSION,) or not known or numbers[count:].any():
        raise ValueError(
            f"expected the {_WORDS_OF_A_MISSION} numbers of mission='words', from 1 to "
            f"{len(MISSION_WORDS) - 1}, zeros behind, got {numbers.size} numbers: "
            f"{np.array2string(numbers, threshold=8)}"
        )
    return " ".join(MISSION_WORDS[number] for number in numbers[:count]).replace(" ,", ",")


class TextEncoder:
    """Strings as arrays of bytes of one length, zeros behind. The last one is kept: texts seldom change."""

    def __init__(self, name: str, length: int) -> None:
        self._name = name
        self._length = length
        self._last: tuple[str, NDArray[np.uint8]] | None = None

    def __call__(self, text: str) -> NDArray[np.uint8]:
        """uint8 ``[length]``.

        Raises:
            ValueError: it takes more bytes than that.
        """
        if self._last is not None and self._last[0] == text:
            return self._last[1]
        encoded = text.encode()
        if len(encoded) > self._length:
            raise ValueError(
                f"the text {self._name!r} takes {len(encoded)} bytes, where its space has {self._length}: "
                f"{text!r}"
            )
        array = np.frombuffer(encoded.ljust(self._length, b"\0"), np.uint8)
        self._last = (text, array)
        return array
