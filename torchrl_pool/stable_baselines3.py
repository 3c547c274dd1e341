"""The pool as a VecEnv of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

try:
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn
except ImportError as error:
    raise ImportError(
        "torchrl_pool.stable_baselines3 needs Stable-Baselines3: pip install stable-baselines3"
    ) from error

from torchrl_pool._arrays import ArrayPool
from torchrl_pool._arrays.array_pool import Columns, Infos
from torchrl_pool._arrays.spaces import Array, row_of
from torchrl_pool._env.sources import known_task

__all__ = ["PoolVecEnv"]


class PoolVecEnv(VecEnv):
    """Stable-Baselines3's ``VecEnv``: ``num_envs`` simulators in one C++ executor.

    Gives what ``DummyVecEnv([lambda: gymnasium.make(task)] * num_envs)`` gives, bit for bit, from the same
    seeds. ``VecMonitor(PoolVecEnv(…))`` adds what a ``Monitor`` around each env would. The ``"episode"``
    infos of a ``Monitor`` or ``RecordEpisodeStatistics`` around a Python env are always passed on.

    Args:
        task: as in :class:`~torchrl_pool.PoolEnv`; Python envs must be Gymnasium's.
        num_envs: number of envs. Default: the length of a sequence of tasks, so that
            ``make_vec_env(…, vec_env_cls=PoolVecEnv)`` works.

    Keyword Args:
        render_mode: ``"rgb_array"`` or ``None``, which is the same for native tasks: recorders such as
            ``VecVideoRecorder`` work without it. For a callable, what it made its envs with.
        info_keys: what the envs' info dicts hold in addition to ``"TimeLimit.truncated"`` and
            ``"terminal_observation"``: the envs' own keys (``/`` separates nested levels), or those that
            every env has (``step_count``, ``episode_reward``, …). Default: all of the envs' own. ``()``:
            none, which is fastest.
        **options: the options of the task, and those of :class:`~torchrl_pool.PoolEnv` but for ``device``,
            ``pin_memory``, ``seed``, ``run_type_checks`` and ``categorical_action_encoding``. ``obs_dtype``
            is the dtype of floating-point observations, of float32 and float64.

    Raises:
        TypeError: an option that the task does not have, ``seed``, or an argument for tensors alone.
        ValueError: an unknown task, or a value that is not allowed.
        EnvFailure: by a call: envs have failed. A reset revives them.

    Examples:
        >>> from torchrl_pool.stable_baselines3 import PoolVecEnv
        >>> env = PoolVecEnv("CartPole-v1", 8)
        >>> env.seed(0)
        [0, 1, 2, 3, 4, 5, 6, 7]
        >>> env.reset().shape
        (8, 4)
    """

    def __init__(
        self,
        task: Any,
        num_envs: int | None = None,
        *,
        render_mode: str | None = None,
        info_keys: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self._arguments = {"render_mode": render_mode, "info_keys": info_keys, **options}
        self._task = task = known_task(task)
        self._pool = ArrayPool(
            task,
            num_envs,
            info_keys=info_keys,
            passed_infos=["episode"],
            render_mode=render_mode,
            shows_tasks=True,  # which costs nothing until a picture is asked for
            **options,
        )
        self._actions: Any = None
        super().__init__(
            self._pool.num_envs, self._pool.single_observation_space, self._pool.single_action_space
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """Of one env; recorders ask it for the frames per second."""
        return self._pool.metadata

    @metadata.setter
    def metadata(self, less: dict[str, Any]) -> None:
        """Nothing: what a VecEnv sets knows the render modes alone."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made from the arguments.

        Raises:
            TypeError: its envs have begun.
        """
        return self._pool.remade(self, partial(type(self), self._task, self.num_envs, **self._arguments))

    def reset(self) -> Any:
        """Begins episodes, with the seeds of :meth:`seed` and the options of :meth:`set_options`.

        Returns:
            Observations ``[num_envs, …]``.
        """
        columns = self._pool.reset(self._seeds, [options or None for options in self._options])
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._infos(columns, self._pool.take_infos()[1])
        return self._pool.observations(columns)

    def step_async(self, actions: Array) -> None:
        """Stores the actions of a step, which :meth:`step_wait` makes.

        Args:
            actions: ``[num_envs, …]`` as the ``action_space`` has it.
        """
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Steps the envs, and resets those whose episode has ended.

        Returns:
            Observations ``[num_envs, …]``, rewards (float32 ``[num_envs]``), dones (bool ``[num_envs]``), and
            an info dict for each env, with ``"terminal_observation"`` where its episode has ended.
        """
        pool = self._pool
        columns, root, failure = pool.step_and_reset(self._actions)
        if failure is not None:
            raise failure
        steps, resets = pool.take_infos()
        infos, dones = self._infos(columns, steps), columns[pool.done]
        for info in infos:
            info["TimeLimit.truncated"] = False
        if root is not None:
            last, first = pool.observations(columns), self._infos(root, resets)
            timed_out = columns[pool.truncated] & ~columns[pool.terminated]
            for i in np.flatnonzero(dones).tolist():
                infos[i]["TimeLimit.truncated"] = bool(timed_out[i])
                infos[i]["terminal_observation"] = row_of(last, i, self.observation_space)
                self.reset_infos[i] = first[i]
        return pool.observations(columns if root is None else root), columns[pool.reward], dones, infos

    def _infos(self, columns: Columns, own_infos: Infos) -> list[dict[str, Any]]:
        """A dict for each env: what columns hold, and what Python envs have given."""
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for name, column in self._pool.infos.items():
            *above, last = name.split("/")
            for info, value in zip(infos, columns[column], strict=True):
                for key in above:
                    info = info.setdefault(key, {})
                info[last] = value.copy() if isinstance(value, np.ndarray) else value
        for i, info in own_infos.items():
            infos[i].update(info)
        return infos

    def close(self) -> None:
        """Ends the threads and the simulators."""
        self._pool.close()

    def get_images(self) -> list[Any]:
        """A picture of each env: uint8 ``[H, W, 3]``, or what ``render`` of a Python env returns."""
        return self._pool.pictures()

    def has_attr(self, attr_name: str) -> bool:
        """Whether all envs have an attribute or method.

        Args:
            attr_name: its name.
        """
        return self._pool.has_attr(attr_name, range(self.num_envs))

    def _get_indices(self, indices: VecEnvIndices) -> list[int]:
        """As those of a list: -1 is the last env."""
        return [range(self.num_envs)[i] for i in super()._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of each env; of native envs, an option or the ``spec``.

        Args:
            attr_name: its name.
            indices: the envs; ``None``: all.
        """
        return self._pool.get_attr(attr_name, self._get_indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of Python envs.

        Args:
            attr_name: its name.
            value: for all of these envs.
            indices: the envs; ``None``: all.
        """
        chosen = self._get_indices(indices)
        self._pool.set_attr(attr_name, [value] * len(chosen), chosen)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of each env; of native envs, ``render`` or, with goals, ``compute_reward``.

        Args:
            method_name: its name.
            *method_args: what it is given; the same for all envs.
            indices: the envs; ``None``: all.
            **method_kwargs: what it is given by name.
        """
        chosen = self._get_indices(indices)
        return self._pool.call(method_name, chosen, *method_args, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """Whether each env has a wrapper. Native envs have none: ``VecMonitor`` goes around the pool.

        Args:
            wrapper_class: the wrapper.
            indices: the envs; ``None``: all.
        """
        return self._pool.is_wrapped(wrapper_class, self._get_indices(indices))
