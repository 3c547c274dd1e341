"""The transforms that a collector gives its env: what the policy reads, and the version of its weights."""

from __future__ import annotations

from typing import Any

from torch import nn
from torchrl.envs import Compose, EnvBase, InitTracker, Transform, TransformedEnv
from torchrl.modules.utils.utils import _compute_missing_env_transforms

from torchrl_pool._transforms.fused_env import fuse
from torchrl_pool._transforms.fusion import is_fusible, transforms_of


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


def fused(env: EnvBase, tracker: Transform | None) -> EnvBase:
    """The env with its transforms fused, where it is a pool with transforms.

    The tracker of versions goes behind all others. It has no native form, and transforms behind such a one
    would have none either.
    """
    if not is_fusible(env):
        return env
    assert isinstance(env, TransformedEnv)
    transforms = transforms_of(env)
    if any(one is tracker for one in transforms[:-1]):
        others = [one for one in transforms if one is not tracker]
        for one in transforms:
            one.reset_parent()
        env = TransformedEnv(env.base_env, Compose(*others, tracker), cache_specs=env.cache_specs)
    return fuse(env)
