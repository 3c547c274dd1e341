"""What runs in the executor and what TorchRL runs, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from torchrl.envs import EnvBase, TransformedEnv

from torchrl_pool._collecting import PoolCollector
from torchrl_pool._mujoco import MujocoPool
from torchrl_pool._tables import print_table
from torchrl_pool._transforms import FusedEnv, fuse
from torchrl_pool._transforms.fusion import transforms_of

_GROUPS = {None: "in one group or two: which is faster is being measured", 1: "all together"}


def explain(what: EnvBase | PoolCollector) -> None:
    """Prints what :func:`fuse` makes of an env's transforms, and :class:`PoolCollector` of its policy.

    Transforms are listed in the order in which they run, the modules of a policy in the order of their calls.

    Args:
        what: a collector, or a :class:`~torchrl_pool.PoolEnv` or :class:`~torchrl_pool.MujocoPool` with or
            without a :class:`~torchrl.envs.TransformedEnv` around it, fused or not.

    Raises:
        TypeError: the env is neither a pool nor a TransformedEnv around one.

    Examples:
        >>> from torchrl.envs import ExpandAs, RewardSum, TransformedEnv
        >>> from torchrl_pool import PoolEnv, explain
        >>> explain(TransformedEnv(PoolEnv("CartPole-v1", 4), RewardSum()))
        transform  runs in       why
        RewardSum  the executor
    """
    if not isinstance(what, PoolCollector):
        env = fuse(what)
        if isinstance(env, TransformedEnv):
            print_table(("transform", "runs in", "why"), list(_transforms(env)))
        else:
            print("transforms: none")
        return
    if isinstance(what.env, FusedEnv) or _is_around_mujoco_pool(what.env):
        print_table(("transform", "runs in", "why"), list(_transforms(what.env)))
        print()
    elif isinstance(what.env, TransformedEnv):
        print("transforms: no more than flags and recurrent states, which the collector writes itself\n")
    print_table(("module of the policy", "called with", "why"), list(_modules(what)))
    print("\nthe envs are stepped " + _GROUPS.get(what.num_groups, f"in {what.num_groups} groups, in turn"))


def _is_around_mujoco_pool(env: EnvBase) -> TypeGuard[TransformedEnv]:
    return isinstance(env, TransformedEnv) and isinstance(env.base_env, MujocoPool)


def _transforms(env: TransformedEnv) -> Iterator[tuple[str, str, str]]:
    if isinstance(env, FusedEnv):
        num_native, why_not = env.fusion().num_native, env.fusion().why_not
    else:
        num_native, why_not = (
            0,
            "rewards and ends of MujocoPool are torch's, which computes them after a step",
        )
    for index, transform in enumerate(transforms_of(env)):
        name = type(transform).__name__
        if index < num_native:
            yield name, "the executor", ""
        elif index == num_native:
            yield name, "TorchRL", why_not
        else:
            yield name, "TorchRL", "one before it does"


def _modules(collector: PoolCollector) -> Iterator[tuple[str, str, str]]:
    parts = collector.policy_parts()
    apart = all(part.step is not None for part in parts)
    for part in parts:
        if apart:
            yield part.name, "tensors", ""
        else:
            yield part.name, "a tensordict", part.why_not or "another one needs it"
