"""The envs of a pool one by one, for TorchRL code that takes a list of envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env.arguments import check_int, env_indices, names_one_env
from torchrl_pool._env.pool_env import PoolEnv


class SingleEnv(EnvBase):
    """One env of a :class:`~torchrl_pool.PoolEnv`, with batch size ``[]``.

    It gives what a :class:`~torchrl.envs.GymEnv` gives. Its calls are the pool's async ones, so many of them
    may be used at the same time, each by one thread; the pool's threads do the work. Only ``set_seed``, and
    ``reset`` with a ``seed`` or ``options`` (as Gymnasium's), need all other envs at rest. The pool is not
    closed by it.

    Args:
        pool: the pool.
        env_index: the env's number in it.

    Raises:
        TypeError: ``env_index`` is not the number of one env.
        IndexError: the pool has no such env.

    Examples:
        >>> from torchrl_pool import PoolEnv
        >>> env = SingleEnv(PoolEnv("CartPole-v1", num_envs=4), 2)
        >>> env.rollout(3).shape
        torch.Size([3])
        >>> env.reset(seed=7)["observation"].shape
        torch.Size([4])
    """

    def __init__(self, pool: PoolEnv, env_index: int) -> None:
        super().__init__(device=pool.device, batch_size=[])
        if not names_one_env(env_index):
            raise TypeError(f"env_index: expected the number of one env, got {env_index!r}")
        (env_index,) = env_indices(env_index, pool.num_envs)
        self.pool, self.env_index = pool, env_index
        self.action_spec = pool.full_action_spec[env_index].clone()
        self.observation_spec = pool.full_observation_spec[env_index].clone()
        self.reward_spec = pool.full_reward_spec[env_index].clone()
        self.done_spec = pool.full_done_spec[env_index].clone()
        self.state_spec = pool.full_state_spec[env_index].clone()

    def _reset(
        self,
        tensordict: TensorDictBase | None = None,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> TensorDictBase:
        if kwargs:
            names = ", ".join(kwargs)
            raise TypeError(f"reset() of {type(self).__name__} takes 'seed' and 'options', got {names}")
        if seed is not None or options is not None:
            own: list[dict[str, Any]] = [{}] * self.pool.num_envs
            own[self.env_index] = {"seed": seed, "options": options}
            mask = torch.arange(self.pool.num_envs, device=self.pool.device) == self.env_index
            rows = TensorDict({"_reset": mask}, mask.shape, device=self.pool.device)
            return self.pool._reset(rows, list_of_kwargs=own)[self.env_index].clone()
        self.pool.async_reset_send(env_index=self.env_index)
        return self.pool.async_reset_recv(env_index=self.env_index).exclude("env_index")

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        given = tensordict.select(*self.action_keys).update(tensordict.select(*self.state_keys, strict=False))
        self.pool.async_step_send(given, env_index=self.env_index)
        return self.pool.async_step_recv(env_index=self.env_index).get("next")

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`torchrl.envs.EnvBase.step_and_maybe_reset`, in one visit of the env."""
        if tensordict.get("_step", None) is not None:
            return super().step_and_maybe_reset(tensordict)  # type: ignore[no-any-return]
        if tensordict.device != self.device:
            tensordict = tensordict.to(self.device)
        self.pool.async_step_and_maybe_reset_send(tensordict, env_index=self.env_index)
        data, root = self.pool.async_step_and_maybe_reset_recv(env_index=self.env_index)
        tensordict.set("next", data.get("next"))
        return tensordict, root.exclude("env_index")

    def _set_seed(self, seed: int | None) -> None:
        """Seeds this env alone, and resets it once with its seed, as ``GymEnv`` does.

        Raises:
            RuntimeError: envs of the pool are in flight.
        """
        if seed is not None:
            self.pool._simulators.seed({self.env_index: check_int("seed", seed, minimum=0)})


def single_envs(pool: PoolEnv) -> list[Callable[[], SingleEnv]]:
    """For each env of a pool a callable that returns it as a :class:`SingleEnv`.

    Args:
        pool: the pool, whose envs all of them step.

    Examples:
        >>> from torchrl_pool import PoolEnv, single_envs
        >>> first, second = (make() for make in single_envs(PoolEnv("CartPole-v1", num_envs=2)))
        >>> first.rollout(3).shape
        torch.Size([3])
    """
    return [partial(SingleEnv, pool, i) for i in range(pool.num_envs)]
