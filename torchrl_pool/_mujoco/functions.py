"""What makes physics a task: functions over the whole batch, and what they return, checked."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from tensordict import TensorDictBase

Reward: TypeAlias = Callable[
    [TensorDictBase, torch.Tensor, TensorDictBase], "torch.Tensor | Mapping[str, torch.Tensor]"
]
Terminated: TypeAlias = Callable[[TensorDictBase, TensorDictBase], torch.Tensor]
Reset: TypeAlias = Callable[[torch.Tensor, torch.Generator], Mapping[str, torch.Tensor]]
Observe: TypeAlias = Callable[[TensorDictBase], "torch.Tensor | Mapping[str, torch.Tensor]"]

FLAGS = ("done", "terminated", "truncated")
#: What neither observations nor terms of the reward can be called.
RESERVED = ("action", "reward", *FLAGS, "pixels", "next", "_step", "_reset")

ARGUMENTS = {
    "reward": ("state", "action", "next_state"),
    "terminated": ("state", "next_state"),
    "reset": ("rows", "generator"),
    "observe": ("state",),
}


def _no_reward(state: TensorDictBase, action: torch.Tensor, next_state: TensorDictBase) -> torch.Tensor:
    return torch.zeros(len(action), device=action.device)


def _never(state: TensorDictBase, next_state: TensorDictBase) -> torch.Tensor:
    return torch.zeros(len(next_state), dtype=torch.bool, device=next_state.device)


@dataclass
class Functions:
    """A task's functions."""

    reward: Reward
    terminated: Terminated
    reset: Reset | None  # none: episodes begin as the physics has it
    observe: Observe | None  # none: arrays are the observations

    @classmethod
    def of(cls, task: Any, **given: Any) -> Functions:
        """Those given, then the methods that a task's object has.

        Raises:
            TypeError: one is no function, or one of other arguments.
        """
        for name, function in given.items():
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected a function, got {function!r}")
        if task is not None and not any(callable(getattr(task, name, None)) for name in ARGUMENTS):
            raise TypeError(
                f"task: expected an object with some of the methods {', '.join(ARGUMENTS)}, got {task!r}"
            )
        functions = {name: given.get(name) or getattr(task, name, None) for name in ARGUMENTS}
        for name, function in functions.items():
            if function is not None:
                _check_arguments(name, function)
        return cls(
            reward=functions["reward"] or _no_reward,
            terminated=functions["terminated"] or _never,
            reset=functions["reset"],
            observe=functions["observe"],
        )


@contextlib.contextmanager
def naming_fields(state: TensorDictBase) -> Iterator[None]:
    """Where a task's function reads an array that its states do not hold, the error says how to have it."""
    try:
        yield
    except KeyError as error:
        missing = [key for key in _named_in(error) if key not in state]
        if not missing:
            raise
        error.add_note(
            f"A MujocoPool's states hold the arrays of MuJoCo that `observation` and `fields` name: "
            f"{', '.join(map(repr, sorted(state.keys())))}. Name {missing[0]!r} in `fields`."
        )
        raise


def _named_in(error: KeyError) -> list[str]:
    return re.findall(r"[\"'](\w[\w:,]*)[\"'] not found", str(error.args[0])) if error.args else []


def _check_arguments(name: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some of those that C code defines have none
        return
    try:
        signature.bind(*ARGUMENTS[name])
    except TypeError as error:
        wanted = ", ".join(ARGUMENTS[name])
        raise TypeError(f"{name}: expected a function of ({wanted}), got one of {signature}") from error


def reward_and_terms(
    value: Any, num_rows: int, keys: Sequence[str]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """A reward as a column ``[num_rows, 1]``; and, by these keys, what it is made of (``[num_rows]``).

    Raises:
        TypeError: it is neither a tensor of a floating-point dtype nor a mapping of such.
        ValueError: it has another shape, or no such terms.
    """
    terms = dict(value.items()) if isinstance(value, (Mapping, TensorDictBase)) else {"reward": value}
    if missing := [key for key in ("reward", *keys) if key not in terms]:
        present = ", ".join(map(repr, terms))
        raise ValueError(f"reward: expected a mapping with {missing[0]!r}, got one with {present}")
    columns = {key: _column(key, terms[key], num_rows) for key in ("reward", *keys)}
    for key, column in columns.items():
        if not column.is_floating_point():
            raise TypeError(f"{key}: expected a floating-point dtype, got {column.dtype}")
    reward = columns.pop("reward")
    return reward, {key: column.squeeze(-1) for key, column in columns.items()}


def check_free(terms: Sequence[str], taken: Container[Any]) -> None:
    """Raises ValueError: something else is called as a term of the reward is to be."""
    if both := [name for name in terms if name in taken]:
        raise ValueError(
            f"info_keys: {both[0]!r} is the name of another entry: rename the term of the reward"
        )


def flag_column(value: Any, num_rows: int) -> torch.Tensor:
    """A flag as a column ``[num_rows, 1]``. Raises as :func:`reward_and_terms`."""
    column = _column("terminated", value, num_rows)
    if column.dtype is not torch.bool:
        raise TypeError(f"terminated: expected dtype torch.bool, got {column.dtype}")
    return column


def _column(name: str, value: Any, num_rows: int) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if value.shape == (num_rows,):
        value = value.unsqueeze(-1)
    if value.shape != (num_rows, 1):
        raise ValueError(f"{name}: expected shape [{num_rows}] or [{num_rows}, 1], got {list(value.shape)}")
    column: torch.Tensor = value.detach() if value.requires_grad else value
    return column


def observed(value: Any, num_rows: int) -> dict[str, torch.Tensor]:
    """What ``observe`` returns, by the names of its entries.

    Raises:
        TypeError: it is neither a tensor nor a mapping from names to tensors.
        ValueError: a tensor has not one row per env.
    """
    entries = {"observation": value} if isinstance(value, torch.Tensor) else value
    if not isinstance(entries, (Mapping, TensorDictBase)):
        raise TypeError(f"observe: expected a tensor or a mapping of tensors, got {type(value).__name__}")
    checked = dict(entries.items())
    if taken := [name for name in checked if name in RESERVED]:
        raise ValueError(f"observe: {taken[0]!r} is a reserved name: rename the observation")
    _check_rows("observe", checked, num_rows)
    return checked


def initial_values(value: Any, num_rows: int, source: str = "reset") -> dict[str, torch.Tensor]:
    """What ``reset`` returns, or another source gives. Raises as :func:`observed`."""
    if not isinstance(value, (Mapping, TensorDictBase)):
        raise TypeError(f"{source}: expected a mapping such as {{'qpos': …}}, got {type(value).__name__}")
    checked = dict(value.items())
    _check_rows(source, checked, num_rows)
    return checked


def _check_rows(function: str, entries: Mapping[str, Any], num_rows: int) -> None:
    for name, tensor in entries.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{function}: {name!r}: expected a torch.Tensor, got {type(tensor).__name__}")
        if tensor.ndim == 0 or tensor.shape[0] != num_rows:
            raise ValueError(
                f"{function}: {name!r}: expected {num_rows} rows, one per env, got shape {list(tensor.shape)}"
            )
