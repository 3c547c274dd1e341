"""A task's options: what their values may be, and how what a user gives becomes one."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

_TYPE_NAMES = {
    "int_list": "list of int",
    "str_list": "list of str",
    "float_list": "list of float",
    "int_or_str": "int or str",
    "float_list_map": "mapping from names to a number or numbers",
}


@dataclass(frozen=True)
class OptionInfo:
    """An option of a task.

    Attributes:
        name: the keyword.
        type: ``"bool"``, ``"int"``, ``"float"``, ``"str"``, ``"int_list"``, ``"float_list"``,
            ``"str_list"``, ``"int_or_str"`` or ``"float_list_map"`` (a mapping from names to a number or
            numbers).
        default: its value where the user gives none.
        help: what it does.
        nullable: whether ``None`` is a value.
        choices: the only values allowed; empty: no such restriction.
        minimum: least value of a number, or of each element of a list.
        maximum: greatest value, likewise.
        fixed_count: length that a list must have; -1: any.

    Examples:
        >>> from torchrl_pool import task_info
        >>> option = task_info("Pendulum-v1").options[0]
        >>> option.name, option.type, option.default
        ('g', 'float', 10.0)
    """

    name: str
    type: str
    default: Any
    help: str
    nullable: bool
    choices: tuple[Any, ...]
    minimum: float
    maximum: float
    fixed_count: int

    @property
    def type_name(self) -> str:
        """The type in words, and whether None is a value too."""
        return _TYPE_NAMES.get(self.type, self.type) + (" or None" if self.nullable else "")

    def check(self, value: Any) -> Any:
        """``value`` in the option's own type.

        Args:
            value: what a user gave.

        Raises:
            TypeError: the value has another type (an int does for a float, a tuple for a list).
            ValueError: the value is none of the choices or out of range.
        """
        if value is None and self.nullable:
            return None
        converted = _convert(self.type, value)
        expected = f"one of {', '.join(map(repr, self.choices))}" if self.choices else self.type_name
        if converted is None:
            raise TypeError(f"option {self.name!r}: expected {expected}, got {value!r}")
        if self.choices and converted not in self.choices:
            raise ValueError(f"option {self.name!r}: expected {expected}, got {value!r}")
        elements = converted if isinstance(converted, list) else [converted]
        if isinstance(converted, dict):  # where there are limits: what is no number is the task's to judge
            limited = -math.inf < self.minimum or self.maximum < math.inf
            elements = [number for numbers in converted.values() for number in numbers] if limited else []
        if self.fixed_count >= 0 and len(elements) != self.fixed_count:
            raise ValueError(
                f"option {self.name!r}: expected {self.fixed_count} elements in a list, got {value!r}"
            )
        for element in elements:
            if isinstance(element, str) and "\0" in element:
                raise ValueError(f"option {self.name!r}: expected text without zero bytes, got {value!r}")
            if isinstance(element, int) and not -(2**63) <= element < 2**63:
                raise ValueError(f"option {self.name!r}: expected an int of 64 bits, got {value!r}")
            if isinstance(element, (int, float)) and not self.minimum <= element <= self.maximum:
                raise ValueError(
                    f"option {self.name!r}: expected a number in [{self.minimum:g}, {self.maximum:g}], "
                    f"got {value!r}"
                )
        return converted


def unknown_option(name: str, what: str, instead: str, known: Sequence[str] = ()) -> TypeError:
    """The error for a keyword that does not exist, with the nearest one that does.

    Args:
        name: the keyword.
        what: the message up to the suggestion.
        instead: the message after it.
        known: the keywords that exist.
    """
    near = difflib.get_close_matches(name, known, n=1)
    return TypeError(f"{what}{f' (did you mean {near[0]!r}?)' if near else ''}; {instead}")


def check_options(
    task: str, kind: str, known: Sequence[OptionInfo], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The values given, each in its option's own type.

    Args:
        task: the id of the task, for messages.
        kind: what they are called there.
        known: the options that the task has.
        given: the values, by name.

    Raises:
        TypeError: the task has no such option, or the option another type.
        ValueError: a value is not allowed.
    """
    options = {option.name: option for option in known}
    for name in given:
        if name not in options:
            has = f"it has: {', '.join(options) or 'none'}"
            if name == "render_mode":
                has = "none is needed: render() and from_pixels=True give pictures"
            raise unknown_option(str(name), f"task {task!r} has no {kind} {name!r}", has, [*options])
    return {name: options[name].check(value) for name, value in given.items()}


def _convert(type: str, value: Any) -> Any:
    """``value`` as this type, or None."""
    if type == "int_or_str":
        return value if isinstance(value, str) else _convert("int", value)
    if type == "float_list_map":
        return _convert_map(value)
    if type.endswith("_list"):
        value = value.tolist() if getattr(value, "ndim", 0) == 1 else value  # an array or a tensor
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            value = [value]  # a number is a list of one
        elements = [_convert(type.removesuffix("_list"), element) for element in value]
        return None if None in elements else elements
    if type == "bool":
        return value if isinstance(value, bool) else None
    if type == "str":
        if isinstance(value, Enum) and not isinstance(value, str):
            return value.name.lower()  # as of TorchRL's MarlGroupMapType
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    if type == "int":
        return int(value) if hasattr(value, "__index__") else None
    if hasattr(value, "__float__") and not isinstance(value, str):
        number = float(value)
        return None if math.isnan(number) else number
    return None


def _convert_map(value: Any) -> dict[str, list[float]] | None:
    """A mapping from names to numbers, each a list of them."""
    if not isinstance(value, Mapping):
        return None
    map = {}
    for key, numbers in value.items():
        try:
            map[str(key)] = [float(number) for number in getattr(numbers, "flat", None) or _listed(numbers)]
        except (TypeError, ValueError):
            return None
    return map


def _listed(numbers: Any) -> Sequence[Any]:
    return numbers if isinstance(numbers, Sequence) else [numbers]
