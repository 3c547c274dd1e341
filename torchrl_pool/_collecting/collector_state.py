"""Where a collector is, as tensors, bytes and numbers: what a checkpoint needs besides networks."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.envs import TransformedEnv

from torchrl_pool._collecting.rollout import StoringCollector
from torchrl_pool._env.pool_env import PoolEnv


def collector_state(collector: StoringCollector) -> dict[str, Any]:
    """The state of a :class:`~torchrl_pool.PoolCollector` between two batches, for a checkpoint.

    These are the simulators with their random streams, the generator that a MujocoPool's ``reset`` is given,
    the root that the next step begins with, the transforms' statistics, the counts of frames and
    trajectories, and the version of the policy's weights. The weights and torch's generators belong to
    whoever made them.

    Args:
        collector: a :class:`~torchrl_pool.PoolCollector`.

    Returns:
        A dict that ``torch.load(…, weights_only=True)`` reads.

    Raises:
        NotImplementedError: a task that cannot save its state.
        ValueError: a collector with ``trajs_per_batch``, which keeps parts of trajectories besides.
        TypeError: an env that is no PoolEnv, with or without transforms.

    Examples:
        >>> from torchrl_pool import PoolCollector, PoolEnv
        >>> from torchrl_pool.training import collector_state
        >>> collector = PoolCollector(PoolEnv("CartPole-v1", 2), frames_per_batch=8, total_frames=-1)
        >>> batch = next(iter(collector))
        >>> collector_state(collector)["frames"]
        8
    """
    pool = _pool_of(collector)
    env = collector.env
    if collector.trajs_per_batch is not None:
        raise ValueError(
            "collector: expected one without trajs_per_batch, with which Collector keeps unfinished "
            "trajectories that cannot be read"
        )
    return {
        "simulators": list(pool.get_state()),
        "generator": None if pool.rng is None else pool.rng.get_state(),
        "root": collector._carrier.clone().to_dict(),
        "transforms": copy.deepcopy(dict(env.transform.state_dict()))
        if isinstance(env, TransformedEnv)
        else {},
        "frames": collector._frames,
        "iteration": collector._iter,
        "trajectories": collector._traj_pool.state_dict(),
        "policy_version": collector.policy_version,
    }


def state_or_error(collector: StoringCollector) -> dict[str, Any] | Exception:
    """A collector's state, or why it cannot be saved."""
    try:
        return collector_state(collector)
    except Exception as error:  # envs of Python may raise anything
        return error.with_traceback(None)


def load_collector_state(collector: StoringCollector, state: dict[str, Any]) -> None:
    """Restores the state of a collector of the same task, transforms and ``num_envs``.

    Its batches are those that the other one would have collected, bit for bit, from the same policy and the
    same state of torch's generator.

    Args:
        collector: a :class:`~torchrl_pool.PoolCollector`.
        state: what :func:`collector_state` returned.

    Raises:
        ValueError: the state is that of other simulators.

    Examples:
        >>> from torchrl_pool import PoolCollector, PoolEnv
        >>> from torchrl_pool.training import collector_state, load_collector_state
        >>> one, other = (
        ...     PoolCollector(PoolEnv("CartPole-v1", 2, seed=seed), frames_per_batch=8, total_frames=-1)
        ...     for seed in (0, 1)
        ... )
        >>> load_collector_state(other, collector_state(one))
        >>> (next(iter(one))["observation"][:, 0] == next(iter(other))["observation"][:, 0]).all().item()
        True
    """
    pool = _pool_of(collector)
    if len(state["simulators"]) != pool.num_envs:
        raise ValueError(f"state: expected {pool.num_envs} simulators, got {len(state['simulators'])}")
    pool.set_state(state["simulators"])
    if pool.rng is not None:
        pool.rng.set_state(state["generator"])
    if isinstance(collector.env, TransformedEnv):
        collector.env.transform.load_state_dict(state["transforms"])
    before = collector._carrier
    root = TensorDict.from_dict(state["root"], batch_size=before.batch_size)
    device = pool.device or torch.device("cpu")
    for key, value in list(root.items(True, True)):  # which may have been saved on another device
        here = before.get(key, None)
        root.set(key, value.to(device if here is None else here.device))
    if before.device is not None:
        root = root.to(before.device)
    root.names = before.names
    collector._carrier = root
    collector._frames, collector._iter = state["frames"], state["iteration"]
    collector._traj_pool.load_state_dict(state["trajectories"])
    if collector.policy_version_tracker is not None and state.get("policy_version") is not None:
        collector.policy_version_tracker.version = state["policy_version"]


def _pool_of(collector: StoringCollector) -> PoolEnv:
    env = collector.env
    while isinstance(env, TransformedEnv):
        env = env.base_env
    if not isinstance(env, PoolEnv):
        raise TypeError(f"collector: expected a PoolEnv below its transforms, got {env!r}")
    return env
