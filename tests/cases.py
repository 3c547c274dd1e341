"""Which cases of a table the default run has, and which only the long form.

A table of ``pytest.mark.parametrize`` runs its first case by default. Where one is not enough, the table is
made with ``cases``. The other cases, and what is marked ``slow``, run with ``TORCHRL_POOL_LONG_TESTS=1``,
over more steps and from more seeds (``LONG``); ``-m slow`` runs them alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

LONG = bool(os.environ.get("TORCHRL_POOL_LONG_TESTS"))


_WithId = type(pytest.param())


class _Cases(list[Any]):
    def __init__(self, default: list[Any], also: Iterable[Any]):
        super().__init__([*default, *also])
        self.by_default = len(default)


def cases(default: Iterable[Any], also: Iterable[Any] = ()) -> list[Any]:
    """A table whose ``default`` cases run by default; ``also`` may have them again.

    >>> cases(["CartPole-v1"], also=["Acrobot-v1", "CartPole-v1"])
    ['CartPole-v1', 'Acrobot-v1']
    """
    default = list(default)

    def is_new(case: Any) -> bool:  # arrays and tensors among the cases have no plain ==
        return not any(case is one or (isinstance(case, str) and case == one) for one in default)

    return _Cases(default, filter(is_new, also))


def runs_by_default(item: pytest.Function) -> bool:
    """Whether each table of the test runs this case by default."""
    return all(_is_among_the_first(item, *table.args[:2]) for table in item.iter_markers("parametrize"))


def _is_among_the_first(item: pytest.Function, names: str | tuple[str, ...], table: Iterable[Any]) -> bool:
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = [item.callspec.params[name] for name in names]
    for case in islice(table, getattr(table, "by_default", 1)):
        values = case.values if isinstance(case, _WithId) else [case] if len(names) == 1 else case
        if all(one is other for one, other in zip(given, values, strict=True)):
            return True
    return False
