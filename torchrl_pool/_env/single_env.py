"""The envs of a pool one by one, for TorchRL code that takes a list of envs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env.arguments import check_int, env_indices, names_one_env
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.some_envs import reset_some, step_some


class SingleEnv(EnvBase):
    """One env of a :class:`~torchrl_pool.PoolEnv`, with batch size ``[]``.

    It gives what a :class:`~torchrl.envs.GymEnv` gives. Its calls are the pool's, with a mask for this env:
    many of them may be used at the same time, each by one thread. The pool is not closed by it.

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
        own: list[dict[str, Any]] | None = None
        if seed is not None or options is not None:
            own = [{}] * self.pool.num_envs
            own[self.env_index] = {"seed": seed, "options": options}
        return reset_some(self.pool, self.env_index, list_of_kwargs=own)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return step_some(self.pool, tensordict, self.env_index)

    def _set_seed(self, seed: int | None) -> None:
        """Seeds this env alone, and resets it once with its seed, as ``GymEnv`` does."""
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
