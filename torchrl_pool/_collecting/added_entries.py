"""What some of TorchRL's transforms add to each step, made by a rollout without calling them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.data import NonTensor
from torchrl.envs import Compose, EnvBase, InitTracker, TensorDictPrimer, Transform, TransformedEnv
from torchrl.envs.llm.transforms import PolicyVersion
from torchrl.envs.transforms import gSDENoise
from torchrl.modules.utils.utils import _compute_missing_env_transforms

from torchrl_pool._collecting.rollout_storage import RowType
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._transforms.fused_env import fuse
from torchrl_pool._transforms.fusion import is_fusible


class AddedEntry:
    """An entry of roots, and of ``"next"``, that the pool does not write."""

    key: str
    next_row: RowType | None = None
    """One of ``("next", key)``, where that is filled in at the end of a batch."""

    def complete_next(self, carrier: TensorDictBase) -> None:
        """Sets ``("next", key)`` where the policy has not and a step records it."""

    def fill_next(self, column: torch.Tensor, versions: Sequence[Any]) -> None:
        """Writes ``("next", key)`` of some envs, ``[n, t, *shape]``.

        ``versions`` are those of the weights that chose the actions of the t steps.
        """

    def next_root(
        self, following: TensorDictBase | None, done: torch.Tensor | None, envs: slice, version: Any
    ) -> torch.Tensor:
        """What the next root gets.

        Args:
            following: the step's ``"next"`` entry, without what the pool writes.
            done: bool ``[n]``: which of these envs begin an episode; None: none of them.
            envs: the rows of these n envs among all.
            version: that of the weights that chose the step's actions.
        """
        raise NotImplementedError


class InitFlag(AddedEntry):
    """``InitTracker``: whether a root is the first one of its episode."""

    next_row = torch.Size([1]), torch.bool

    def __init__(self, transform: InitTracker) -> None:
        self.key = transform.init_key

    def fill_next(self, column: torch.Tensor, versions: Sequence[Any]) -> None:
        column.zero_()

    def next_root(
        self, following: TensorDictBase | None, done: torch.Tensor | None, envs: slice, version: Any
    ) -> torch.Tensor:
        if done is None:
            return torch.zeros(envs.stop - envs.start, 1, dtype=torch.bool, device="cpu")
        return done.reshape(-1, 1).clone(memory_format=torch.contiguous_format)


class Version(AddedEntry):
    """``PolicyVersion``: which weights chose the action that led here."""

    key = "policy_version"
    next_row = torch.Size([]), torch.int64

    def fill_next(self, column: torch.Tensor, versions: Sequence[Any]) -> None:
        column.copy_(torch.tensor(versions, device="cpu"))

    def next_root(
        self, following: TensorDictBase | None, done: torch.Tensor | None, envs: slice, version: Any
    ) -> torch.Tensor:
        return torch.full((envs.stop - envs.start,), version, dtype=torch.int64, device="cpu")


class Primed(AddedEntry):
    """An entry of a ``TensorDictPrimer``: a policy's memory, and what it is at an episode's beginning."""

    def __init__(self, transform: TensorDictPrimer, key: str) -> None:
        self.key = key
        self._transform = transform
        self._constant: tuple[Any, Any, torch.Tensor] | None = None  # of which spec and value

    def complete_next(self, carrier: TensorDictBase) -> None:
        following = carrier.get("next", None)
        if following is None or following.get(self.key, None) is None:
            carrier.set(("next", self.key), carrier.get(self.key))

    def next_root(
        self, following: TensorDictBase | None, done: torch.Tensor | None, envs: slice, version: Any
    ) -> torch.Tensor:
        assert following is not None
        value: torch.Tensor = following.get(self.key)
        if done is None:
            return value
        begins = done.to(value.device).reshape(-1, *[1] * (value.ndim - 1))
        return torch.where(begins, self._first()[envs].to(value.device), value)

    def _first(self) -> torch.Tensor:
        """The values that all envs would begin with: fresh ones where they are drawn."""
        spec, value = self._transform.primers[self.key], self._transform.default_value[self.key]
        if self._transform.random:
            drawn: torch.Tensor = spec.rand()
            return drawn
        if callable(value):
            made: torch.Tensor = value()
            return made
        if self._constant is None or self._constant[0] is not spec or self._constant[1] is not value:
            self._constant = spec, value, torch.full(spec.shape, value, dtype=spec.dtype, device=spec.device)
        return self._constant[2]


def added_entries(env: EnvBase, tracker: Any = None) -> tuple[PoolEnv, Sequence[AddedEntry]] | None:
    """The pool below an env's transforms, and what they add; None where they do anything else.

    Args:
        env: a PoolEnv, or a TransformedEnv around one.
        tracker: the PolicyVersion whose versions the entries are given.
    """
    entries: list[AddedEntry] = []
    while type(env) is TransformedEnv:
        transform = env.transform
        transforms = list(transform.transforms) if type(transform) is Compose else [transform]
        for one in reversed(transforms):  # from the outside in
            found = _entries_of(one, tracker)
            if found is None:
                return None
            entries[:0] = found
        env = env.base_env
    if not isinstance(env, PoolEnv) or not env._writes_entries:
        return None
    return (env, entries) if _are_new(entries, env) else None


def entries_of(transforms: Sequence[Transform], tracker: Any = None) -> Sequence[AddedEntry] | None:
    """What these transforms add; None where they do anything else."""
    entries: list[AddedEntry] = []
    for transform in transforms:
        found = _entries_of(transform, tracker)
        if found is None:
            return None
        entries += found
    return entries


def fused(env: EnvBase) -> EnvBase:
    """The env with its transforms fused, where it is a pool with transforms."""
    return fuse(env) if is_fusible(env) else env


def _are_new(entries: Sequence[AddedEntry], env: EnvBase) -> bool:
    keys = [entry.key for entry in entries]
    own = {*env.full_action_spec.keys(True, True), *env.output_spec.keys(True, True)}
    own = {key[-1] if isinstance(key, tuple) else key for key in own}
    return len(set(keys)) == len(keys) and own.isdisjoint(keys)


def _entries_of(transform: Any, tracker: Any) -> Sequence[AddedEntry] | None:
    kind = type(transform)
    if kind is InitTracker:
        return [InitFlag(transform)]
    if kind is PolicyVersion and transform is tracker and transform.version_type in (int, "int"):
        return [Version()]
    if kind not in (TensorDictPrimer, gSDENoise):
        return None
    if transform.single_default_value or transform.call_before_env_reset:
        return None
    specs = dict(transform.primers.items(True, True))
    if not all(isinstance(key, str) and not isinstance(spec, NonTensor) for key, spec in specs.items()):
        return None
    return [Primed(transform, key) for key in specs]


def with_what_the_policy_reads(env: EnvBase, policy: Any) -> EnvBase:
    """The env with transforms for what modules of the policy name and the env does not write.

    That is ``is_init``, where it is among a module's ``in_keys`` or its ``is_init_key``, and the entries for
    which a module makes a primer.
    """
    missing = _compute_missing_env_transforms(env, policy)
    only_flags = all(isinstance(transform, InitTracker) for transform in missing)
    if not only_flags or _reads_is_init(policy):
        for transform in missing:
            env = env.append_transform(transform)
    return env


def _reads_is_init(policy: Any) -> bool:
    return isinstance(policy, nn.Module) and any(
        "is_init" in getattr(module, "in_keys", ()) or getattr(module, "is_init_key", None) == "is_init"
        for module in policy.modules()
    )
