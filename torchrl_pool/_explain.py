"""What runs in the executor and what TorchRL runs, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from torchrl.envs import EnvBase, Transform, TransformedEnv

from torchrl_pool._collecting import PoolCollector
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._tables import table_of
from torchrl_pool._transforms import FusedEnv, fuse
from torchrl_pool._transforms.fusion import transforms_of

Row: TypeAlias = tuple[str, str, str]
_GROUPS = {None: "in one group or two: which is faster is being measured", 1: "all together"}


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` returns; printed, a table of the transforms and one of the policy's modules.

    Attributes:
        transforms: for each transform its class, where it runs (``"the executor"``, ``"the collector"`` or
            ``"TorchRL"``), and why, in the order in which they run.
        modules: for each module of a collector's policy its class, ``"tensors"`` or ``"a tensordict"``, and
            why, in the order of their calls.
        stepping: how a collector steps the envs; empty for an env.
        placement: where Python envs run, and, once their steps have taken two seconds, where they would be
            faster; empty for native ones.
    """

    transforms: tuple[Row, ...]
    modules: tuple[Row, ...] = ()
    stepping: str = ""
    placement: str = ""

    def __repr__(self) -> str:
        blocks = []
        if self.transforms:
            blocks.append(table_of(("transform", "runs in", "why"), self.transforms))
        if self.modules:
            blocks.append(table_of(("module of the policy", "called with", "why"), self.modules))
        blocks += [line for line in (self.stepping, self.placement) if line]
        return "\n\n".join(blocks) or "transforms: none"


def explain(what: EnvBase | PoolCollector) -> Explanation:
    """Says what :func:`fuse` makes of an env's transforms, and :class:`PoolCollector` of its policy.

    Args:
        what: a collector, or a :class:`~torchrl_pool.PoolEnv` or :class:`~torchrl_pool.MujocoPool` with or
            without a :class:`~torchrl.envs.TransformedEnv` around it, fused or not.

    Returns:
        An object to print; its ``transforms`` and ``modules`` are tuples of ``(class, where, why)``.

    Raises:
        TypeError: the env is neither a pool nor a TransformedEnv around one.

    Examples:
        >>> from torchrl.envs import RewardSum, TransformedEnv
        >>> from torchrl_pool import PoolEnv, explain
        >>> print(explain(TransformedEnv(PoolEnv("CartPole-v1", 4), RewardSum())))
        transform  runs in       why
        RewardSum  the executor
    """
    if not isinstance(what, PoolCollector):
        env = fuse(what)
        transforms = tuple(_transforms(env)) if isinstance(env, TransformedEnv) else ()
        return Explanation(transforms, placement=_placement(env))
    env, groups = what.env, what.num_groups
    stepping = "the envs are stepped " + _GROUPS.get(groups, f"in {groups} groups, in turn")
    tracker = what.policy_version_tracker if what._counts_versions else None
    transforms = tuple(_transforms(env, tracker)) if isinstance(env, TransformedEnv) else ()
    return Explanation(transforms, tuple(_modules(what)), stepping, _placement(env))


def _placement(env: EnvBase) -> str:
    pool = env.base_env if isinstance(env, TransformedEnv) else env
    return pool._source.placement() if isinstance(pool, PoolEnv) else ""


def _transforms(env: TransformedEnv, tracker: Transform | None = None) -> Iterator[Row]:
    if isinstance(env, FusedEnv):
        num_native, why_not = env.fusion().num_native, env.fusion().why_not
    elif not isinstance(env.base_env, PoolEnv):
        num_native, why_not = 0, f"the env below is no pool but a {type(env.base_env).__name__}"
    elif env.base_env._writes_entries:
        num_native, why_not = 0, f"{type(env).__name__} is a class of its own around the pool"
    elif not env.base_env._steps_at_once:
        num_native, why_not = 0, f"{type(env.base_env).__name__} has a step or a reset of its own"
    else:
        num_native, why_not = 0, "rewards and ends of episodes are torch's, which computes them after a step"
    for index, one in enumerate(transforms_of(env)):
        name = type(one).__name__
        if index < num_native:
            yield name, "the executor", ""
        elif one is tracker:
            yield name, "the collector", ""
        elif index == num_native:
            yield name, "TorchRL", why_not
        else:
            yield name, "TorchRL", "one before it does"


def _modules(collector: PoolCollector) -> Iterator[Row]:
    parts = collector.policy_parts()
    apart = all(part.step is not None for part in parts)
    for part in parts:
        if apart:
            yield part.name, "tensors", ""
        else:
            yield part.name, "a tensordict", part.why_not or "another one needs it"
