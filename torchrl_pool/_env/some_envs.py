"""Steps and resets of some envs in one call that is waited for, whatever the other envs do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool._env.errors import EnvFailure
from torchrl_pool._env.specs import Key
from torchrl_pool._env.tensors import entries_of


def step_some(env: Any, rows: TensorDictBase, indices: list[int] | int) -> TensorDictBase:
    """What ``step`` adds under ``"next"`` for these envs.

    Args:
        env: the PoolEnv.
        rows: the root of each of these envs, with an action: ``[k]``, or ``[]`` of one.
        indices: their numbers, or the number of one.

    Returns:
        ``[k]`` or ``[]``.

    Raises:
        EnvFailure: envs have failed; its ``tensordict`` is as what is returned.
    """
    entries: dict[Key, Any] = {}
    for key in (*env.action_keys, *env.state_keys):
        value = entries[key] = rows.get(key, None)
        if isinstance(value, torch.Tensor):
            entries[key] = value.new_zeros((env.num_envs, *value.shape[rows.batch_dims :]))
            entries[key][indices] = value
        elif value is None:
            del entries[key]  # which is refused in words
    try:
        return _rows_of(env, env._step, "_step", entries, indices)
    except (KeyError, TypeError, ValueError):
        # What is wrong with the actions is said of the caller's rows, not of all envs'.
        try:
            entries = env._actions.prepared(entries_of(rows.reshape(-1)), rows.numel())
            env._actions.checked(entries, rows.numel())
        except (KeyError, TypeError, ValueError) as of_rows:
            raise of_rows from None
        raise


def reset_some(env: Any, indices: list[int] | int, **kwargs: Any) -> TensorDictBase:
    """The root that an episode of these envs begins with, ``[k]`` or ``[]``.

    Args:
        env: the PoolEnv.
        indices: the numbers of the envs, or of one.
        **kwargs: those of its ``_reset``.

    Raises:
        EnvFailure: as :func:`step_some`.
    """
    return _rows_of(env, env._reset, "_reset", {}, indices, **kwargs)


def _rows_of(
    env: Any,
    call: Callable[..., TensorDictBase],
    mask_key: str,
    entries: dict[Key, Any],
    indices: list[int] | int,
    **kwargs: Any,
) -> TensorDictBase:
    mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    mask[indices] = True
    try:
        result = call(env._stepper.unsafe({mask_key: mask, **entries}), **kwargs)
    except EnvFailure as failure:
        if failure.tensordict is not None:
            failure.tensordict = failure.tensordict[indices]
        raise
    rows = result[indices]
    # Of one env these are views, which would keep all envs' rows in memory.
    return rows.clone() if isinstance(indices, int) else rows
