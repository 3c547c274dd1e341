"""A law of control and its gains, as the task takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch


def control_lines(control: str | Mapping[str, str] | Sequence[str]) -> list[str]:
    """One line for all actuators, or one for each that is named."""
    if isinstance(control, str):
        return [control]
    if isinstance(control, Mapping):
        if unnamed := [actuator for actuator in control if not isinstance(actuator, str)]:
            raise TypeError(f"control: expected names of actuators, got {unnamed[0]!r}")
        control = [f"{_quoted(actuator.strip())} = {expression}" for actuator, expression in control.items()]
    if not isinstance(control, Sequence) or not all(isinstance(line, str) for line in control):
        raise TypeError(
            f"control: expected an expression, or a mapping from actuators to expressions, got {control!r}"
        )
    return list(control)


def _quoted(name: str) -> str:
    quote = next((one for one in "'\"" if one not in name), "")  # MuJoCo's names may hold either
    return f"{quote}{name}{quote}"


def split_gains(
    gains: Mapping[str, float | Sequence[float] | torch.Tensor], num_envs: int
) -> tuple[dict[str, list[float]], dict[str, torch.Tensor]]:
    """The gains that a model is compiled with; and each env's own, as fields of the model."""
    fixed, own = {}, {}
    for name, value in gains.items():
        if isinstance(value, torch.Tensor):
            if value.ndim not in (1, 2) or len(value) != num_envs:
                raise ValueError(
                    f"gains: {name!r}: expected shape [{num_envs}] or [{num_envs}, actuators], "
                    f"got {list(value.shape)}"
                )
            own[f"numeric_data:{name}"] = value.reshape(num_envs, -1)
            value = value.reshape(num_envs, -1)[0].tolist()
        fixed[name] = _numbers(name, value)
    return fixed, own


def _numbers(name: str, value: Any) -> list[float]:
    try:
        is_list = not isinstance(value, (str, bytes, Mapping))
        numbers = [float(one) for one in np.atleast_1d(value)] if is_list else []
    except (TypeError, ValueError):
        numbers = []
    if not numbers:
        raise TypeError(
            f"gains: {name!r}: expected a number, a list with one for each actuator, or a tensor with each "
            f"env's, got {value!r}"
        )
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"gains: {name!r}: expected finite numbers, got {value!r}")
    return numbers
