"""Texts in tensors: characters as uint8, in UTF-8, with zeros behind the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decode_text(chars: Any) -> Any:
    """The strings that an entry of characters holds.

    Args:
        chars: uint8 ``[..., length]``, a tensor or an array: what :class:`~torchrl_pool.PoolEnv` gives for a
            mission of MiniGrid's and for a Python env's ``Text``.

    Returns:
        A string for ``[length]``; for each dimension before that, a list.

    Raises:
        TypeError: other than uint8.
        ValueError: a dimension is missing, or the bytes are no UTF-8.

    Examples:
        >>> from torchrl_pool import PoolEnv, decode_text
        >>> env = PoolEnv("MiniGrid-Fetch-5x5-N2-v0", num_envs=2, seed=0)
        >>> missions = decode_text(env.reset()["mission"])
    """
    array = np.asarray(chars.detach().cpu() if hasattr(chars, "detach") else chars)
    if array.dtype != np.uint8:
        raise TypeError(f"expected characters as uint8, got {array.dtype}")
    if array.ndim == 0:
        raise ValueError("expected characters of shape [..., length], got a single number")
    return _decoded(array)


def _decoded(array: NDArray[np.uint8]) -> Any:
    if array.ndim > 1:
        return [_decoded(part) for part in array]
    return array.tobytes().rstrip(b"\0").decode()


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
