"""The pool as a vector env of Gymnasium; importing it registers every task: ``torchrl_pool/CartPole-v1``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

try:
    import gymnasium
    from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_differing_spaces, batch_space
except ImportError as error:
    raise ImportError("torchrl_pool.gymnasium needs Gymnasium: pip install gymnasium") from error

from torchrl_pool._arrays import ArrayPool
from torchrl_pool._arrays.array_pool import Columns, Infos, Mask
from torchrl_pool._arrays.spaces import Array, Space, row_of
from torchrl_pool._env.python_source import is_python
from torchrl_pool._env.sources import known_task
from torchrl_pool._plugins.names import gymnasium_id
from torchrl_pool._plugins.registry import list_tasks, task_info

__all__ = ["PoolVectorEnv", "register_tasks"]

# Looked up here: to ask the enum for a member takes as long as a part of a step.
_SAME_STEP, _DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


class PoolVectorEnv(VectorEnv[Any, Any, Any]):
    """Gymnasium's vector environment: ``num_envs`` simulators in one C++ executor.

    Gives what ``gymnasium.make_vec(task, num_envs, vectorization_mode="sync")`` gives, bit for bit, from the
    same seeds and in the same autoreset mode. Arrays that a call returns belong to the caller.

    Differences: actions that are no choice, or not finite, raise :class:`ValueError`; the infos of a native
    task's reset have the same keys as those of a step, with zeros where there is no value.

    Args:
        task: as in :class:`~torchrl_pool.PoolEnv`; Python envs must be Gymnasium's.
        num_envs: number of envs. Default: the length of a sequence of tasks, 1 for one task.

    Keyword Args:
        autoreset_mode: when an env is reset whose episode has ended: ``AutoresetMode.NEXT_STEP``,
            ``SAME_STEP`` or ``DISABLED``, or their values.
        render_mode: ``"rgb_array"`` or ``None``; for a callable, what it made its envs with.
        observation_mode: ``"same"``: Python envs have one observation space; ``"different"``: its bounds
            may differ; or the batched space and that of one env, as in ``SyncVectorEnv``.
        info_keys: the keys of the infos: the envs' own (``/`` separates nested levels), or those that every
            env has (``step_count``, ``episode_reward``, …). Default: all of the envs' own. ``()``: none,
            which is fastest for Python envs with infos in each step.
        **options: the options of the task, and those of :class:`~torchrl_pool.PoolEnv` but for ``device``,
            ``pin_memory``, ``seed``, ``run_type_checks`` and ``categorical_action_encoding``. ``obs_dtype``
            is the dtype of floating-point observations, of float32 and float64.

    Raises:
        TypeError: an option that the task does not have, ``seed``, or an argument for tensors alone.
        ValueError: an unknown task, or a value that is not allowed.
        RuntimeError: the envs' spaces differ.
        EnvFailure: envs have failed. The others have done their work; a reset with
            ``options={"reset_mask": …}`` revives those that failed.

    Examples:
        >>> import gymnasium, torchrl_pool.gymnasium
        >>> envs = gymnasium.make_vec("torchrl_pool/CartPole-v1", num_envs=3)
        >>> observations, infos = envs.reset(seed=42)
        >>> observations, rewards, terminations, truncations, infos = envs.step([0, 1, 0])
        >>> rewards
        array([1., 1., 1.])
    """

    def __init__(
        self,
        task: Any,
        num_envs: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        observation_mode: str | tuple[Space, Space] = "same",
        info_keys: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self._arguments = {
            "autoreset_mode": autoreset_mode,
            "render_mode": render_mode,
            "observation_mode": observation_mode,
            "info_keys": info_keys,
            **options,
        }
        self._task = task = known_task(task)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self._pool = ArrayPool(
            task,
            1 if num_envs is None and (isinstance(task, str) or callable(task)) else num_envs,
            info_keys=info_keys,
            exact_reward=True,
            render_mode=render_mode,
            **options,
        )
        self.num_envs = self._pool.num_envs
        self.render_mode = self._pool.render_mode
        self.metadata = {**self._pool.metadata, "autoreset_mode": self.autoreset_mode}
        self.observation_mode = observation_mode
        try:
            self._choose_spaces(observation_mode)
        except BaseException:
            self._pool.close()
            raise
        self._ended: Mask = np.zeros(self.num_envs, np.bool_)
        self._everyone: Mask = np.ones(self.num_envs, np.bool_)
        self._seeded = [-1] * self.num_envs
        # Copies, for rows that a later reset leaves out: what a call returns is the caller's to change.
        self._latest: dict[int, Array] = {}  # by column
        self._pending: tuple[str, tuple[Any, ...]] | None = None  # what ..._async was given

    def _choose_spaces(self, observation_mode: str | tuple[Space, Space]) -> None:
        """As ``SyncVectorEnv`` has them.

        Raises:
            RuntimeError: those of the envs do not fit together.
            ValueError: an unknown mode.
        """
        observations, actions = self._pool.spaces()
        first: Space = observations[0]
        self.single_observation_space, self.single_action_space = first, actions[0]
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if isinstance(observation_mode, tuple) and len(observation_mode) == 2:
            self.observation_space, self.single_observation_space = observation_mode
        elif observation_mode == "same":
            self.observation_space = batch_space(first, self.num_envs)
        elif observation_mode == "different":
            self.observation_space = batch_differing_spaces(observations)
        else:
            raise ValueError(
                "observation_mode: expected 'same', 'different', or a tuple of the batched space and that of "
                f"one env, got {observation_mode!r}"
            )
        for env, (observation, action) in enumerate(zip(observations, actions, strict=True)):
            if observation_mode == "same" and observation != first:
                raise RuntimeError(
                    f"observation_mode='same': expected {first}, the space of env 0, from all envs, got "
                    f"{observation} from env {env}; 'different' allows other bounds"
                )
            if action != actions[0]:
                raise RuntimeError(
                    f"expected the action space {actions[0]} of all envs, got {action} of env {env}"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are made from the arguments.

        Raises:
            TypeError: its envs have begun.
        """
        return self._pool.remade(self, partial(type(self), self._task, self.num_envs, **self._arguments))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begins episodes.

        Args:
            seed: env i gets ``seed + i``, or the i-th of a sequence; ``None``: its random stream continues.
            options: what the envs' resets take. ``"reset_mask"``, an array of ``num_envs`` bools, limits the
                reset to these envs; the others' observations are the latest ones.
        """
        self._check_idle()
        try:
            self.reset_async(seed, options)
            return self.reset_wait()
        finally:
            self._pending = None

    def _reset(
        self, seed: int | Sequence[int | None] | None, options: Mapping[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        own = dict(options or {})
        mask = self._check_mask(own.pop("reset_mask")) if "reset_mask" in own else None
        seeds = self._seeds(seed)
        columns = self._pool.reset(seeds, [own or None] * self.num_envs, mask)
        for i, given in enumerate(seeds):
            if given is not None and (mask is None or mask[i]):
                self._seeded[i] = int(given)
        if mask is None:
            self._ended = np.zeros(self.num_envs, np.bool_)
        else:
            self._ended = self._ended & ~mask
            for i, latest in self._latest.items():
                columns[i][~mask] = latest[~mask]
        infos = self._with_own_infos(self._infos(columns, mask), self._pool.take_infos()[1])
        self._keep(columns)
        return self._pool.observations(columns), infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps the envs; what happens where episodes end is the autoreset mode's choice.

        In ``SAME_STEP`` the infos hold ``"final_obs"`` and ``"final_info"`` of the episodes that have ended.

        Args:
            actions: ``[num_envs, …]`` as the ``action_space`` has it.

        Returns:
            Observations ``[num_envs, …]``, rewards (float64 ``[num_envs]``), terminations and truncations
            (bool ``[num_envs]``), and infos.

        Raises:
            RuntimeError: in ``DISABLED``, an episode has ended and its env has not been reset.
        """
        if self.closed or self._pending is not None:
            self._check_idle()
        try:
            self.step_async(actions)
            return self.step_wait()
        finally:
            self._pending = None  # an interrupt may have come between the two

    def _step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        pool, root = self._pool, None
        if self.autoreset_mode is _SAME_STEP:
            columns, root, failure = pool.step_and_reset(actions)
        else:
            ended = self._ended if np.count_nonzero(self._ended) else None
            if ended is not None and self.autoreset_mode is _DISABLED:
                which = np.flatnonzero(ended).tolist()
                raise RuntimeError(f"the episodes of envs {which} have ended: reset them before a step")
            columns, failure = pool.step(actions, ended)
            self._ended = columns[pool.done]
        seen = columns if root is None else root
        self._keep(seen)
        if failure is not None:
            raise failure
        steps, resets = pool.take_infos()
        infos = self._infos(seen, None)
        if root is not None:
            infos.update(self._final(columns, steps))
            steps = {i: info for i, info in steps.items() if not columns[pool.done][i]}
        if steps or resets:
            self._with_own_infos(infos, {**steps, **resets})
        return (
            pool.observations(seen),
            columns[pool.exact_reward],
            columns[pool.terminated],
            columns[pool.truncated],
            infos,
        )

    # ---- the same in two calls, as AsyncVectorEnv has it ---------------------------------------------------

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Stores the arguments of a reset, which :meth:`reset_wait` makes. Otherwise as :meth:`reset`."""
        self._check_idle()
        self._pending = "reset", (seed, options)

    def reset_wait(self) -> tuple[Any, dict[str, Any]]:
        """Makes the reset of :meth:`reset_async`. Otherwise as :meth:`reset`."""
        return self._reset(*self._take_pending("reset"))

    def step_async(self, actions: Any) -> None:
        """Stores the actions of a step, which :meth:`step_wait` makes. Otherwise as :meth:`step`."""
        if self.closed or self._pending is not None:
            self._check_idle()
        self._pending = "step", (actions,)

    def step_wait(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Makes the step of :meth:`step_async`. Otherwise as :meth:`step`."""
        return self._step(*self._take_pending("step"))

    def _take_pending(self, name: str) -> tuple[Any, ...]:
        """The arguments of the call that is to be made."""
        pending, self._pending = self._pending, None
        if pending is not None and pending[0] == name and not self.closed:
            return pending[1]
        self._pending = pending
        self._check_open()
        raise NoAsyncCallError(f"{name}_wait(): expected a call of {name}_async() before it", name)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed that each env was given last; -1: none, it began with one of the system's.

        Python envs are asked.
        """
        return self.get_attr("np_random_seed") if is_python(self._task) else tuple(self._seeded)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Copies of the random generators of Python envs.

        Raises:
            AttributeError: native envs, whose generators are the simulators' own.
        """
        return self.get_attr("np_random")

    def render(self) -> tuple[Any, ...] | None:
        """A picture of each env (uint8 ``[H, W, 3]``), where ``render_mode`` is ``"rgb_array"``."""
        self._check_open()
        if self.render_mode is None:
            gymnasium.logger.warn("render() shows nothing: no render_mode was given, such as 'rgb_array'")
            return None
        return tuple(self._pool.pictures())

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each env, or gets an attribute that cannot be called.

        Native envs have their options as attributes, and the methods ``render`` and, with goals,
        ``compute_reward``.

        Args:
            name: the method or attribute.
            *args: what the method is given; the same for all envs.
            **kwargs: what it is given by name.
        """
        self._check_idle()
        return tuple(self._pool.call(name, range(self.num_envs), *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each env; of native envs, an option or the ``spec``.

        Args:
            name: the attribute.
        """
        self._check_idle()
        return tuple(self._pool.get_attr(name, range(self.num_envs)))

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of Python envs.

        Args:
            name: the attribute.
            values: a list or tuple with a value for each env; anything else: for all of them.
        """
        self._check_idle()
        self._pool.set_attr(name, values, range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and the simulators.

        Args:
            **kwargs: Gymnasium's, which have no effect.
        """
        self._pool.close()

    # ---- what the parts of a call need -----------------------------------------------------------------

    def _check_idle(self) -> None:
        self._check_open()
        if self._pending is not None:
            name = self._pending[0]
            raise AlreadyPendingCallError(f"expected {name}_wait() first: {name}_async() was called", name)

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{self} has been closed")

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None or not isinstance(seed, Sequence | np.ndarray):
            return [None if seed is None else seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: expected {self.num_envs} of them, one per env, got {len(seed)}")
        return list(seed)

    def _check_mask(self, mask: Any) -> Mask:
        name = "options['reset_mask']"
        if not isinstance(mask, np.ndarray):
            raise TypeError(f"{name}: expected an array of NumPy, got {type(mask)}")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"{name}: expected the shape {(self.num_envs,)}, got {mask.shape}")
        if mask.dtype != np.bool_:
            raise TypeError(f"{name}: expected bools, got {mask.dtype}")
        if not mask.any():
            raise ValueError(f"{name}: expected at least one env to reset, got none")
        return mask.copy()

    def _keep(self, columns: Columns) -> None:
        if not self._latest:
            self._latest = {i: columns[i].copy() for i in self._pool.observed}
            return
        for i, latest in self._latest.items():
            latest[...] = columns[i]

    def _infos(self, columns: Columns, mask: Mask | None) -> dict[str, Any]:
        """Those of columns as VectorEnv has them: each with a mask of the envs of this call, zero for others.

        What an env has not given is zero, too: columns do not say what was there.
        """
        infos: dict[str, Any] = {}
        if not self._pool.infos:
            return infos
        everyone = self._everyone if mask is None else mask
        for name, column in self._pool.infos.items():
            *above, last = name.split("/")
            level = infos
            for key in above:
                level[f"_{key}"] = everyone.copy()
                level = level.setdefault(key, {})
            value = columns[column]
            if mask is not None:
                value = np.zeros_like(value)
                value[mask] = columns[column][mask]
            level[last], level[f"_{last}"] = value, everyone.copy()
        return infos

    def _with_own_infos(self, infos: dict[str, Any], own_infos: Infos) -> dict[str, Any]:
        """The same, and what Python envs have given, with masks that say which."""
        for i, info in sorted(own_infos.items()):
            infos = self._add_info(infos, info, i)
        return infos

    def _final(self, columns: Columns, own_infos: Infos) -> dict[str, Any]:
        """What the ended episodes saw last."""
        ended = columns[self._pool.done]
        observations = self._pool.observations(columns)
        final = np.full(self.num_envs, None, dtype=object)
        last: Infos = {}
        for i in np.flatnonzero(ended).tolist():
            final[i] = row_of(observations, i, self.single_observation_space)
            last[i] = own_infos.get(i, {})
        return {
            "final_obs": final,
            "_final_obs": ended.copy(),
            "final_info": self._with_own_infos(self._infos(columns, ended), last),
            "_final_info": ended.copy(),
        }


def _only_many(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """What ``gymnasium.make`` calls for one env.

    Raises:
        gymnasium.error.Error: always.
    """
    name = gymnasium_id(task)
    raise gymnasium.error.Error(
        f"{name} steps many envs at once: gymnasium.make_vec({name!r}, num_envs=1), in TorchRL "
        f"PoolEnv({task!r}, num_envs=1), or without torchrl_pool gymnasium.make({task!r})"
    )


def register_tasks() -> None:
    """Registers every task that is not yet registered, as ``torchrl_pool/`` and the last part of its id.

    Tasks with PettingZoo's ids (``mpe2/simple_spread_v3``) are left out: they have many agents.

    Done when this module is imported; to be called again for plugins that are loaded later. A task whose id
    Gymnasium refuses is left out with a warning.

    Examples:
        >>> import gymnasium, torchrl_pool.gymnasium
        >>> torchrl_pool.gymnasium.register_tasks()
        >>> "torchrl_pool/CartPole-v1" in gymnasium.registry
        True
    """
    for task in list_tasks():
        name = gymnasium_id(task)
        if name is None or name in gymnasium.registry:
            continue
        info = task_info(task)
        try:
            gymnasium.register(
                name,
                entry_point="torchrl_pool.gymnasium:_only_many",
                vector_entry_point="torchrl_pool.gymnasium:PoolVectorEnv",
                max_episode_steps=info.max_episode_steps,
                reward_threshold=info.reward_threshold,
                kwargs={"task": task},
            )
        except gymnasium.error.Error as error:  # a plugin's author may never have seen Gymnasium's rules
            refused = f"task {task!r} is not registered with Gymnasium, which refuses its id: {error}"
            warnings.warn(refused, RuntimeWarning, stacklevel=2)


register_tasks()
