"""Pools of one kind, as checks make and compare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase

History = list[TensorDictBase]  # the root of each step with its action and "next", then the last root


@dataclass(frozen=True)
class Pools:
    """Pools of one kind: see ``check_pool``."""

    make: Callable[..., Any]
    num_envs: int
    steps: int
    encodings: Sequence[Mapping[str, Any]]
    placements: Sequence[Mapping[str, Any]]
    open: list[Any] = field(default_factory=list)

    def __call__(self, num_envs: int | None = None, **options: Any) -> Any:
        self.open.append(self.make(num_envs or self.num_envs, **options))
        return self.open[-1]

    def run(self, check: Callable[[Pools], bool]) -> bool:
        """Runs a check and closes what it has made."""
        try:
            return check(self)
        finally:
            while self.open:
                self.open.pop().close(raise_if_closed=False)

    def play(self, env: Any, root: TensorDictBase, actions: History | None = None) -> History:
        """Steps with random actions, or with those of another history."""
        history = []
        for t in range(self.steps if actions is None else len(actions) - 1):
            root = env.rand_action(root) if actions is None else root.update(action_of(env, actions[t]))
            root, following = env.step_and_maybe_reset(root)
            history.append(root)
            root = following
        return [*history, root.exclude(*env.action_keys)]  # which are the policy's to write


def action_of(env: Any, td: TensorDictBase) -> TensorDictBase:
    return td.select(*env.action_keys).clone()


def copy_of(td: TensorDictBase) -> TensorDictBase:
    """With the bits of each number: ``TensorDict.clone`` may turn -0 into 0."""
    same: TensorDictBase = td.apply(torch.clone)
    return same


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def require_equal(a: TensorDictBase, b: TensorDictBase, what: str) -> None:
    for key in a.keys(True, True):
        mine, other = a[key], b.get(key, None)
        # Bytes, so that a NaN equals itself.
        if other is None or mine.dtype != other.dtype or not torch.equal(_bytes(mine), _bytes(other)):
            raise AssertionError(f"{what}: {key!r} is {mine} in one and {other} in the other")


def require_same_history(a: History, b: History, what: str) -> None:
    for t, (x, y) in enumerate(zip(a, b, strict=True)):
        require_equal(x, y, f"{what}, step {t}")
