"""A policy that was built for all envs of a pool, called for some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tensordict import TensorDictBase
from torch import nn
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import RandomPolicy

from torchrl_pool._collecting.direct_policy import take_apart

Policy: TypeAlias = Callable[[TensorDictBase], TensorDictBase]


def policy_for_rows(policy: Any, call: Policy, action_spec: Composite, rows: slice) -> Policy:
    """What to call for these envs.

    Args:
        policy: the policy for all of them.
        call: what is called for it.
        action_spec: the env's ``full_action_spec``, which is for all of them.
        rows: which they are.
    """
    if isinstance(policy, RandomPolicy):
        random: Policy = RandomPolicy(action_spec[rows])
        return take_apart(random) or random
    # Exploration modules and safe actors may hold the spec for all envs: within a call, that for these.
    specs = {
        module: _cut(spec, action_spec, rows)
        for module in (policy.modules() if isinstance(policy, nn.Module) else ())
        if isinstance(spec := getattr(module, "_spec", None), TensorSpec) and _is_for_all(spec, action_spec)
    }

    def call_for_rows(tensordict: TensorDictBase) -> TensorDictBase:
        for_all = {module: module.__dict__["_spec"] for module in specs}
        try:
            for module, spec in specs.items():
                module.__dict__["_spec"] = spec
            return call(tensordict)
        except RuntimeError as error:
            error.add_note(
                f"double_buffered called the policy for {len(tensordict)} of the envs. A module of it that "
                "needs a spec gets env.action_spec_unbatched, which is for any number of them."
            )
            raise
        finally:
            for module, spec in for_all.items():
                module.__dict__["_spec"] = spec

    return call_for_rows


def _is_for_all(spec: TensorSpec, action_spec: Composite) -> bool:
    """Whether a spec is, or holds, that of an action of all envs."""
    if isinstance(spec, Composite):
        return any(_is_action(key, leaf, action_spec) for key, leaf in spec.items(True, True))
    return any(spec.shape == leaf.shape for leaf in action_spec.values(True, True))


def _is_action(key: Any, leaf: TensorSpec | None, action_spec: Composite) -> bool:
    return leaf is not None and key in action_spec.keys(True, True) and leaf.shape == action_spec[key].shape


def _cut(spec: TensorSpec, action_spec: Composite, rows: slice) -> TensorSpec:
    # The composite that a module makes of a spec of numbers, [N], has no batch size.
    if not isinstance(spec, Composite) or spec.shape:
        return spec[rows]
    leaves = {
        key: leaf[rows] if _is_action(key, leaf, action_spec) else leaf
        for key, leaf in spec.items(True, True)
    }
    return Composite(leaves, device=spec.device)
