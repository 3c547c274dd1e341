"""The pool in TorchRL's hydra configurations: ``hydra.searchpath: [pkg://torchrl_pool.configs]``.

Adds the choice ``pool`` to the group ``env``, beside TorchRL's ``gym`` and ``multi_threaded``.
"""

from __future__ import annotations

from typing import Any

import torch

from torchrl_pool.env import PoolEnv


def make_pool_env(task: Any, num_envs: int, *, obs_dtype: str | None = None, **options: Any) -> PoolEnv:
    """A :class:`~torchrl_pool.PoolEnv` from what yaml can say: dtypes by their names.

    Raises:
        ValueError: an ``obs_dtype`` other than ``"float32"``, ``"float64"`` and ``None``.
    """
    if obs_dtype not in (None, "float32", "float64"):
        raise ValueError(f"obs_dtype: expected 'float32', 'float64' or null, got {obs_dtype!r}")
    dtype = None if obs_dtype is None else getattr(torch, obs_dtype)
    return PoolEnv(task, num_envs, obs_dtype=dtype, **options)
