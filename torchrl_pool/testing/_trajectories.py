"""A pool against a Gymnasium twin: the same trajectories, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key

Policy = Callable[[PoolEnv, TensorDictBase], torch.Tensor]


def assert_same_trajectories(
    task: str,
    gym_env_fn: Callable[[], Any],
    *,
    num_envs: int = 3,
    steps: int = 500,
    seeds: Sequence[int] = (0, 1, 2),
    info_keys: Sequence[str] = (),
    reset_options: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    **options: Any,
) -> list[TensorDict]:
    """Checks that a task gives the trajectories of a Gymnasium env, bit for bit, through all resets.

    For each seed s, env i of the pool and of the twins is reset with seed s + i; both then get the same
    actions, and a twin whose episode ends is reset without a seed. Observations, rewards (in the task's
    dtype), flags and infos must be equal in every bit, and observations in dtype and shape.

    Args:
        task: the id of a task.
        gym_env_fn: makes a twin: an env with the interface of :class:`gymnasium.Env`. Where the task has a
            time limit, the twin needs the same (``gymnasium.wrappers.TimeLimit``), or give
            ``max_episode_steps``.
            Dict spaces stand for nested entries, Tuples of equal shapes for a first dimension.

    Keyword Args:
        num_envs: envs to compare at a time.
        steps: steps to compare for each seed.
        seeds: see above.
        info_keys: entries to compare with the twin's info dict, after conversion to the task's dtype; those
            that a reset of the twin leaves out are zero. ``"exact_reward"`` is compared with its reward.
        reset_options: the ``options`` of the twins' reset.
        policy: gives the actions for a pool and its root tensordict; default: random ones.
        **options: the task's own options, and those of :class:`~torchrl_pool.PoolEnv`.

    Returns:
        What the pool gave: for each seed a tensordict ``[num_envs, steps]`` with root and ``"next"`` entries.

    Raises:
        AssertionError: the two differ; the message names the seed, the step, the env and the entry.

    Examples:
        >>> import gymnasium
        >>> from torchrl_pool.testing import assert_same_trajectories
        >>> make_twin = lambda: gymnasium.make("CartPole-v1")
        >>> data = assert_same_trajectories("CartPole-v1", make_twin, steps=50, seeds=[0])
    """
    options = {"categorical_action_encoding": True, "device": "cpu", **options}
    pool = PoolEnv(task, num_envs, info_keys=info_keys, **options)
    twins = [gym_env_fn() for _ in range(num_envs)]
    try:
        with torch.random.fork_rng(devices=()):
            return [
                _Comparison(pool, twins, seed, info_keys, reset_options).run(steps, policy) for seed in seeds
            ]
    finally:
        pool.close()
        for twin in twins:
            twin.close()


class _Comparison:
    """A pool and its twins from one seed on."""

    def __init__(
        self,
        pool: PoolEnv,
        twins: Sequence[Any],
        seed: int,
        info_keys: Sequence[str],
        reset_options: Mapping[str, Any] | None,
    ) -> None:
        self._pool = pool
        self._twins = twins
        self._seed = seed
        self._infos = [_key(name) for name in info_keys if name not in pool._configs[0].native_keys]
        self._exact = ["exact_reward"] if "exact_reward" in info_keys else []
        self._options = None if reset_options is None else dict(reset_options)
        self._where = ""

    def run(self, steps: int, policy: Policy | None) -> TensorDict:
        pool = self._pool
        torch.manual_seed(self._seed)
        root = pool.reset(seed=self._seed)
        self._where = "first root"
        for i, twin in enumerate(self._twins):
            observation, info = twin.reset(seed=self._seed + i, options=self._options)
            self._compare_root(root, i, observation, info, is_reset=True)
        history = []
        for t in range(steps):
            if policy is None:
                root = pool.rand_action(root)
            else:
                root["action"] = policy(pool, root)
            root, following = pool.step_and_maybe_reset(root)
            for i, twin in enumerate(self._twins):
                self._step(t, root, following, i, twin)
            history.append(root)
            root = following
        stacked: TensorDict = torch.stack(history, -1)
        return stacked

    def _step(self, t: int, root: TensorDictBase, following: TensorDictBase, i: int, twin: Any) -> None:
        self._where = f"next entries of step {t}"
        observation, reward, terminated, truncated, info = twin.step(self._action(root, i))
        after = root["next"]
        self._compare_root(after, i, observation, info)
        for key in (*self._pool.reward_keys, *self._exact):
            have = after[key][i]
            want = np.asarray(reward, have.numpy().dtype).reshape(have.shape)
            self._compare(key, i, have, want)
        for key, want in (("terminated", terminated), ("truncated", truncated)):
            self._compare(key, i, after[key][i], np.array([want], bool))
        self._where = f"root after step {t}"
        done = bool(terminated or truncated)
        if done:
            observation, info = twin.reset(options=self._options)
        self._compare_root(following, i, observation, info, is_reset=done)

    def _action(self, root: TensorDictBase, i: int) -> Any:
        """What the twin's step takes: a number, an array, or a dict of them."""
        action: dict[str, Any] = {}
        for key in self._pool.action_keys:
            value = root[key][i].numpy()
            _put(action, key, value if value.ndim else value.item())
        return action["action"] if list(action) == ["action"] else action

    def _compare_root(
        self,
        root: TensorDictBase,
        i: int,
        observation: Any,
        info: Mapping[str, Any],
        is_reset: bool = False,
    ) -> None:
        entries = _flatten(observation) if isinstance(observation, Mapping) else {"observation": observation}
        for key, want in entries.items():
            have = root.get(key, None)
            if have is None:
                raise AssertionError(f"the twin observes {key!r}, the pool {list(root.keys(True, True))}")
            self._compare(key, i, have[i], np.asarray(want))
        for key in self._infos:
            value: Any = info
            have = root[key][i].numpy()
            for part in (key,) if isinstance(key, str) else key:
                if part not in value:
                    if is_reset:
                        value = np.zeros_like(have)
                        break
                    raise AssertionError(f"{self._at(key, i)}: the twin's info has only {list(value)}")
                value = value[part]
            self._compare(key, i, root[key][i], np.asarray(value).astype(have.dtype).reshape(have.shape))

    def _at(self, key: Key, i: int) -> str:
        return f"{self._pool.task}, seed {self._seed}, {self._where}, env {i}, {key!r}"

    def _compare(self, key: Key, i: int, have: torch.Tensor, want: np.ndarray[Any, Any]) -> None:
        mine = have.numpy()
        if mine.dtype != want.dtype or mine.shape != want.shape:
            raise AssertionError(
                f"{self._at(key, i)}: the pool has {mine.dtype} {list(mine.shape)}, "
                f"the twin {want.dtype} {list(want.shape)}"
            )
        if not np.array_equal(mine, want, equal_nan=mine.dtype.kind == "f"):
            raise AssertionError(f"{self._at(key, i)}: the pool has {mine}, the twin {want}")


def _key(name: str) -> Key:
    parts = tuple(name.split("/"))
    return parts[0] if len(parts) == 1 else parts


def _flatten(entries: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> dict[Key, Any]:
    flat: dict[Key, Any] = {}
    for name, value in entries.items():
        path = (*prefix, name)
        if isinstance(value, Mapping):
            flat.update(_flatten(value, path))
        else:
            flat[path if prefix else name] = value
    return flat


def _put(into: dict[str, Any], key: Key, value: Any) -> None:
    *outer, leaf = (key,) if isinstance(key, str) else key
    for part in outer:
        into = into.setdefault(part, {})
    into[leaf] = value
