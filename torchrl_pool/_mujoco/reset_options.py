"""What MujocoPool gives to the resets of its physics, and what these say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

PHYSICS = "MJCF-v0"
# How the physics calls what these arguments give, and what its callers call it.
_WORDS = {f"{PHYSICS}: set: ": "reset: ", f"{PHYSICS}: start: ": "model_fields: "}


def reset_options(
    start: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor], rows: Sequence[int], num_envs: int
) -> list[dict[str, Any] | None]:
    """One mapping of reset options per env, with its row of each tensor."""
    options: list[dict[str, Any] | None] = [None] * num_envs
    lists = [
        {name: value.reshape(len(rows), -1).tolist() for name, value in one.items()}
        for one in (start, values)
    ]
    for position, row in enumerate(rows):
        options[row] = {
            kind: {name: numbers[position] for name, numbers in one.items()}
            for kind, one in zip(("start", "set"), lists, strict=True)
        }
    return options


@contextmanager
def in_own_words() -> Iterator[None]:
    """Errors about values that resets are given name the argument that gave them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        for word, own in _WORDS.items():
            if str(error).startswith(word):
                raise type(error)(own + str(error).removeprefix(word)) from None
        raise
