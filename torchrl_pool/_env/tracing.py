"""Calls that torch.compile does not look into."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

Call = TypeVar("Call", bound=Callable[..., Any])
_is_compiling = torch.compiler.is_compiling


def not_traced(call: Call) -> Call:
    """A call that breaks a graph of torch.compile, which cannot look into the executor."""
    untraced = torch.compiler.disable(  # type: ignore[no-untyped-call]
        call, reason="the executor steps the envs of this pool"
    )

    @wraps(call)
    def either(*args: Any, **kwargs: Any) -> Any:
        # Asked first, since the way through torch's wrapper takes as long as a step of a few small envs.
        return untraced(*args, **kwargs) if _is_compiling() else call(*args, **kwargs)

    return cast("Call", either)
