"""Many steps of each env in one call, by actions that are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from tensordict import TensorDict

from torchrl_pool import _core
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key
from torchrl_pool._env.tensors import unsafe_tensordict


def steps(env: PoolEnv, actions: torch.Tensor, names: Mapping[Key, str]) -> TensorDict:
    """Steps by actions ``[N, T, …]``, without resets.

    Args:
        env: whose envs they are.
        actions: of each env and step.
        names: the columns that are recorded, and what they are called in the record.

    Returns:
        ``[N, T]``: the columns after each step.

    Raises:
        ValueError: the actions have another shape.
        EnvFailure: envs have failed; its ``tensordict`` is the record, with zeros from their failures on.
    """
    pool = env._running()
    if actions.ndim != 3 or len(actions) != env.num_envs or actions.shape[1] == 0:
        shape = [env.num_envs, "T", *env.action_spec.shape[1:]]
        raise ValueError(f"actions: expected shape {shape}, got {list(actions.shape)}")
    batch_size = actions.shape[:2]
    inputs = env._actions.checked({"action": actions.flatten(0, 1)}, batch_size.numel())
    prototypes = env._stepper.step_prototypes
    record: dict[Key, torch.Tensor] = {
        key: torch.empty((*batch_size, *one.shape[1:]), dtype=one.dtype, device="cpu")
        for key, one in prototypes.items()
        if key in names
    }
    outputs = [record[key].data_ptr() if key in record else 0 for key in prototypes]
    env._stepper.latest = {}
    failed = None
    try:
        env._stepper.calls.steps(pool, inputs, (record, outputs), batch_size[1])
    except _core.EnvFailure as error:
        failed = error
    named: dict[Key, torch.Tensor] = {
        names[key]: value for key, value in env._stepper.on_device(record).items()
    }
    result = unsafe_tensordict(named, batch_size, env.device, nested=False)
    if failed is not None:
        raise env_failure(failed, result) from None
    return result
