"""A drop-in for torchrl.envs.MultiThreadedEnv."""

from __future__ import annotations

from typing import Any

import torch

from torchrl_pool import _core
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._fork_aware_lock import fork_aware_lock
from torchrl_pool._plugins.names import id_of_envpools


class MultiThreadedEnv(PoolEnv):
    """:class:`~torchrl_pool.PoolEnv` under the signature of :class:`torchrl.envs.MultiThreadedEnv`.

    As there, the first call may be a step: the envs then reset themselves before.

    Differences that a user of TorchRL's class sees: reward and done entries have shape ``[N, 1]``, as
    everywhere else in TorchRL; the terminal observation of an episode is never lost and no transition is
    invented at its end; ``set_seed`` and the masks ``_step`` and ``_reset`` work.

    Args:
        num_workers: number of envs.
        env_name: the id of a task, or EnvPool's id of one of dm_control's, such as ``"CheetahRun-v1"``.

    Keyword Args:
        create_env_kwargs: ``seed``, ``num_threads``, ``max_episode_steps`` and the task's own options.
        categorical_action_encoding: discrete actions as int64 numbers ``[N]``. TorchRL documents ``False`` as
            its default, but its class gives numbers whatever the argument; so the default is ``True`` here.
        disable_env_checker: accepted and without effect, as there.
        frame_skip: repeats each action that often and sums the rewards, through TorchRL's own
            :class:`~torchrl.envs.transforms.FrameSkipTransform`, which does not stop at an episode's end.
        device: as in :class:`~torchrl_pool.PoolEnv`; default ``"cpu"``, as there.
        allow_done_after_reset: see :class:`~torchrl.envs.EnvBase`.
        **kwargs: further keyword arguments of :class:`~torchrl_pool.PoolEnv`.

    Examples:
        >>> from torchrl_pool import MultiThreadedEnv
        >>> MultiThreadedEnv(4, "Pendulum-v1", create_env_kwargs={"g": 3.7}).rollout(3).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        num_workers: int,
        env_name: str,
        *,
        create_env_kwargs: dict[str, Any] | None = None,
        categorical_action_encoding: bool = True,
        disable_env_checker: bool | None = None,
        frame_skip: int | None = None,
        device: torch.device | str | int | None = "cpu",
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            id_of_envpools(env_name),
            num_workers,
            device=device,
            categorical_action_encoding=categorical_action_encoding,
            allow_done_after_reset=allow_done_after_reset,
            **{**(create_env_kwargs or {}), **kwargs},
        )
        self.num_workers = num_workers
        self.env_name = env_name
        self._is_new = True  # neither stepped nor closed
        self._beginning = fork_aware_lock()
        if frame_skip is not None:
            self.frame_skip = frame_skip  # EnvBase's metaclass looks here and wraps the env
        self._arguments = {
            "num_workers": num_workers,
            "env_name": env_name,
            "create_env_kwargs": create_env_kwargs,
            "categorical_action_encoding": categorical_action_encoding,
            "allow_done_after_reset": allow_done_after_reset,
            **kwargs,
        }

    def _running(self) -> _core.Pool:
        if self._is_new:
            with self._beginning:  # several threads may send first steps at once
                if self._simulators.pool is None and self._is_new:
                    self._reset()
                self._is_new = False
        return super()._running()

    def close(self, *, raise_if_closed: bool = False) -> None:
        """As :meth:`PoolEnv.close`."""
        try:
            super().close(raise_if_closed=raise_if_closed)
        finally:  # an interrupted close may have closed it
            self._is_new = self._is_new and not self._simulators.was_closed
