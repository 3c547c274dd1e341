"""Which transforms of an env run natively, and why the others do not."""

from __future__ import annotations

from torchrl.envs import EnvBase

from torchrl_pool.tables import print_table
from torchrl_pool.transforms.fused_env import fuse
from torchrl_pool.transforms.fusion import transforms_of


def explain(env: EnvBase) -> None:
    """Prints what :func:`fuse` makes of an env's transforms, in the order in which they run.

    Args:
        env: a :class:`~torchrl.envs.TransformedEnv` around a :class:`~torchrl_pool.PoolEnv`, fused or not.

    Raises:
        TypeError: the env is no TransformedEnv around a PoolEnv.

    Examples:
        >>> from torchrl.envs import ExpandAs, RewardSum, TransformedEnv
        >>> from torchrl_pool import PoolEnv, explain
        >>> explain(TransformedEnv(PoolEnv("CartPole-v1", 4), RewardSum()))
        transform  runs in      why
        RewardSum  the executor
    """
    fused = fuse(env)
    fusion = fused.fusion()
    rows = []
    for index, transform in enumerate(transforms_of(fused)):
        name = type(transform).__name__
        if index < fusion.num_native:
            rows.append((name, "the executor", ""))
        elif index == fusion.num_native:
            rows.append((name, "TorchRL", fusion.why_not))
        else:
            rows.append((name, "TorchRL", "one before it does"))
    print_table(("transform", "runs in", "why"), rows)
