"""PoolEnv: the batch of envs as TorchRL sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from numpy.typing import DTypeLike
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import (
    MOST_ENVS,
    check_choice,
    check_device,
    check_float_dtype,
    check_int,
    check_mask,
    check_names,
    check_seconds,
)
from torchrl_pool._env.async_env import AsyncEnv
from torchrl_pool._env.executor_env import not_traced
from torchrl_pool._env.python_source import PythonSource, is_python
from torchrl_pool._env.reset_arguments import Options as ResetOptions
from torchrl_pool._env.source import TASK_DEFAULT, PluginSource, Source
from torchrl_pool._env.specs import Key
from torchrl_pool._fork_aware_lock import fork_aware_lock
from torchrl_pool._plugins.names import task_ids

# The id of a task, dm_control's name of one, or what makes an env of Python.
Task: TypeAlias = "str | tuple[str, str] | Callable[[], Any]"
_FLOAT_DTYPES = {None: -1, torch.float32: 6, torch.float64: 7}  # trp_dtype in abi.h


class PoolEnv(AsyncEnv):
    """A vectorized TorchRL environment: ``num_envs`` simulators in one C++ executor.

    Gives the trajectories of ``SerialEnv(num_envs, lambda: GymEnv(task))``, bit for bit (for Atari, of
    ``GymEnv`` with Gymnasium's ``AtariPreprocessing`` and ``FrameStackObservation``). Where ``task`` is a
    callable that returns a Python env, its envs run in worker processes and give the trajectories of
    ``SerialEnv(num_envs, task)``. Tensors that a call returns belong to the caller: the pool never writes to
    them again.

    Simulators and threads are created at the first reset. Until then a pool costs nothing but its specs, and
    can be pickled and sent to another process.

    The entries of its tensordicts, whose batch size is ``[N]``, for N = ``num_envs``:

    | entry | shape and dtype | in |
    |---|---|---|
    | ``"observation"``, or the task's names | ``[N, …]``, the task's dtype, or ``obs_dtype`` | root, next |
    | names in ``info_keys`` | ``[N, …]``, the task's dtype | root, next |
    | ``"pixels"``, with ``from_pixels`` | uint8 ``[N, H, W, 3]`` | root, next |
    | ``"done"``, ``"terminated"``, ``"truncated"`` | bool ``[N, 1]`` | root, next |
    | ``"reward"`` | float32 ``[N, 1]`` | next |
    | ``"action"``, which ``step`` reads | ``[N, …]``; discrete ones: one-hot int64 ``[N, n]`` | root |

    The root is what ``reset`` returns and ``step`` reads; ``"next"`` is what ``step`` adds. Python envs may
    have entries of other names and shapes, nested ones among them: see ``env.specs``.

    Args:
        task: the id of a native task (see :func:`~torchrl_pool.list_tasks`), a pair of dm_control's names,
            such as ``("cheetah", "run")``, or a list with one id per env, with entries that agree in name,
            shape and dtype. Or a callable that returns a Python env (of Gymnasium, TorchRL or PettingZoo), or
            a list with one callable per env; ``"gymnasium:ID"`` stands for ``gymnasium.make(ID)``. The first
            env of each callable is then made at once, to read its specs.
        num_envs: number of envs, N.

    Keyword Args:
        num_threads: threads that step native envs, the calling one included. Default: the processors that
            this process may use (affinity mask, cgroup quota), at most ``num_envs``.
        num_workers: worker processes that run Python envs, in equal shares. Default: the processors that this
            process may use, at most ``num_envs``. 0: the envs run in this process, where a debugger reaches
            them; the only choice where there is no Linux.
        caller_steps: whether this process steps a share of the Python envs itself while it waits for the
            workers. That is fastest where a step takes microseconds, with one worker less than there are
            processors (then the default). A crash of one of these envs ends this process, and
            ``step_timeout`` and ``respawn`` are not supported.
        device: where outputs go. A CUDA device gets them through pinned memory, in its current stream and
            without blocking; actions may be there too, and a step waits for them alone. ``None``: CPU
            tensors in tensordicts without a device.
        pin_memory: whether CPU outputs are pinned. Default: only when the device is a CUDA device.
        seed: as ``set_seed(seed)`` right after construction. Default: seeds from the operating system.
        max_episode_steps: steps after which an episode is truncated; ``None``: never. Default: the task's. A
            limit within a Python env stays in force.
        categorical_action_encoding: discrete actions as int64 numbers ``[N]`` instead of one-hot
            ``[N, n]``, as in :class:`~torchrl.envs.GymEnv`.
        obs_dtype: ``torch.float32`` or ``torch.float64``, or the name of one, for all floating-point
            observations. Default: the task's own.
        info_keys: info entries to add to the observations: the task's own (see ``torchrl-pool info TASK``),
            or keys of a Gymnasium env's info dicts (``/`` separates nested levels; their specs are read from
            a step or more of the first env), and for every env ``step_count`` (int64 ``[N, 1]``),
            ``episode_reward`` (``[N, 1]``, of the reward's dtype) and ``is_init`` (bool ``[N, 1]``), which
            equal what TorchRL's StepCounter, RewardSum and InitTracker write. Where each env has one float32
            reward, ``exact_reward`` (float64 ``[N, 1]``) is its value before rounding.
        from_pixels: adds a picture of each env to the observations, ``"pixels"`` (uint8 ``[N, H, W, 3]``), as
            in :class:`~torchrl.envs.GymEnv`.
        pixels_only: with ``from_pixels``, leaves out the task's own observations.
        thread_affinity: processors to pin the pool's own threads to, in turn; the calling thread is not
            pinned.
        env_options: for each env a mapping of task options that override ``task_options``.
        step_timeout: seconds that an env may take for a step, a reset or its creation, checked about every 20
            ms. One that takes longer fails with :class:`EnvFailure`. Another thread replaces that of a native
            env, whose own thread stays until the call returns, after ``close()`` too; the env may be reset
            then. A worker process is ended, with all its envs, and restarted at their next reset. With a
            timeout the calling thread steps no env itself, which costs microseconds per step. ``None``: no
            limit.
        respawn: what happens to Python envs whose worker process has ended. ``False``: they fail with
            :class:`EnvFailure`, and the next reset makes them again. ``True``: they are made again at once;
            the step in which they were lost is truncated, with zeros as outputs and an entry ``"respawned"``
            (bool ``[N, 1]``) that is true.
        refuse_nan: whether an env that writes NaN to an observation or a reward fails with
            :class:`EnvFailure`. Default: NaN is passed on.
        check_actions: what is checked of actions before any env moves. ``"finite"``: that choices exist and
            numbers are finite; continuous actions outside of their bounds reach the env, as in Gymnasium, and
            of several ones in a one-hot vector the first counts, as in GymEnv. ``"strict"``: that they are
            within their bounds, too.
        run_type_checks: see :class:`~torchrl.envs.EnvBase`.
        allow_done_after_reset: see :class:`~torchrl.envs.EnvBase`.
        **task_options: the task's own options, under the names of its reference implementation (see
            ``torchrl-pool info TASK``).

    Raises:
        TypeError: an option that the task does not have, or a value of another type.
        ValueError: an unknown task, a value that is not allowed, tasks that do not fit together.
        EnvFailure: the first Python env cannot be made, or has spaces that tensors cannot hold.

    Examples:
        >>> from torchrl_pool import PoolEnv
        >>> env = PoolEnv("CartPole-v1", num_envs=4, seed=0)
        >>> env.rollout(10, break_when_any_done=False).shape
        torch.Size([4, 10])
    """

    _writes_entries = True
    """Whether the executor's columns are the entries. Where a subclass computes these from them, after each
    call, neither transforms nor rollouts can be left to the executor."""
    rng: torch.Generator | None = None
    """What a subclass draws from in Python: it is a part of a collector's state."""

    def __init__(
        self,
        task: Task | Sequence[Task],
        num_envs: int,
        *,
        num_threads: int | None = None,
        num_workers: int | None = None,
        caller_steps: bool = False,
        device: torch.device | str | int | None = None,
        pin_memory: bool | None = None,
        seed: int | None = None,
        max_episode_steps: int | None = TASK_DEFAULT,
        categorical_action_encoding: bool = False,
        obs_dtype: torch.dtype | DTypeLike | None = None,
        info_keys: Sequence[str] = (),
        from_pixels: bool = False,
        pixels_only: bool = True,
        thread_affinity: Sequence[int] | None = None,
        env_options: Sequence[Mapping[str, Any]] | None = None,
        step_timeout: float | None = None,
        respawn: bool = False,
        refuse_nan: bool = False,
        check_actions: Literal["finite", "strict"] = "finite",
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
        **task_options: Any,
    ) -> None:
        self._arguments = {
            k: v for k, v in locals().items() if k not in ("self", "task_options", "__class__")
        }
        self._arguments.update(task_options)
        of_front = task_options.pop("_of_front", {})  # of PythonSource, for a front without tensordicts
        if hasattr(task, "step") and not isinstance(task, type):
            raise TypeError(
                "task: expected a callable that returns an env, got an env "
                f"({type(task).__name__}); pass `lambda: env_class(...)`, which its worker process calls"
            )
        task = task_ids(task)
        num_envs = check_int("num_envs", num_envs, minimum=1, maximum=MOST_ENVS)
        if max_episode_steps is not TASK_DEFAULT and max_episode_steps is not None:
            max_episode_steps = check_int("max_episode_steps", max_episode_steps, minimum=1)
        float_dtype = check_float_dtype("obs_dtype", obs_dtype)
        info_keys = check_names("info_keys", info_keys)
        is_strict = check_choice("check_actions", check_actions, ("finite", "strict")) == "strict"
        check_device(device)
        super().__init__(
            device=device,
            batch_size=[num_envs],
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )

        self.num_envs = num_envs
        self.task = task
        self._step_timeout = check_seconds("step_timeout", step_timeout)
        self._pin_memory_wish = pin_memory
        self._opening = fork_aware_lock()
        self._holders = weakref.WeakSet()
        self._entropy = [None] * num_envs
        one_hot = not categorical_action_encoding
        if is_python(task):
            _refuse_for_python(
                num_threads=num_threads,
                thread_affinity=thread_affinity,
                env_options=env_options,
                from_pixels=from_pixels or None,
            )
            self._source: Source = PythonSource(
                task,
                num_envs,
                num_workers=num_workers,
                caller_steps=caller_steps,
                respawn=respawn,
                step_timeout=self._step_timeout,
                task_options=task_options,
                info_keys=info_keys,
                max_episode_steps=max_episode_steps,
                one_hot=one_hot,
                obs_dtype=float_dtype,
                **of_front,
            )
        else:
            if num_workers is not None or respawn or caller_steps:
                raise TypeError(
                    "num_workers, caller_steps, respawn: expected with Python envs alone, got them with "
                    f"{task!r}, a native task, which runs in threads: see num_threads"
                )
            self._source = PluginSource(
                task,
                num_envs,
                num_threads=num_threads,
                thread_affinity=thread_affinity,
                env_options=env_options,
                task_options=task_options,
                max_episode_steps=max_episode_steps,
                one_hot=one_hot,
            )
        try:
            self._describe(
                _core.LayoutOptions(
                    info_keys=list(dict.fromkeys([*info_keys, *self._source.info_keys])),
                    one_hot=self._source.one_hot,
                    float_dtype=_FLOAT_DTYPES[float_dtype],
                    from_pixels=from_pixels,
                    pixels_only=pixels_only,
                    refuse_nan=refuse_nan,
                    strict_actions=is_strict,
                )
            )
            if seed is not None:
                self.set_seed(seed)
        except BaseException:
            self._source.close()
            raise

    # ---- reset -----------------------------------------------------------------------------------------

    def reset(
        self,
        tensordict: TensorDictBase | None = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: ResetOptions = None,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> TensorDictBase:
        """Starts new episodes, in all envs or in those of a mask.

        All arguments are checked before any env moves.

        Args:
            tensordict: ``[N]``; an entry ``"_reset"`` (bool ``[N]`` or ``[N, 1]``) is the mask. In the other
                rows the result is what the tensordict holds.
            seed: env i gets ``seed + i``, as in Gymnasium's vector envs, or the i-th of a sequence.
            options: the task's reset options (see ``python -m torchrl_pool info``), for this reset only: one
                mapping for all envs, or one mapping or ``None`` for each.
            list_of_kwargs: as in ``SerialEnv``: for each env a mapping that may hold ``"seed"`` and
                ``"options"``. What is given for all envs comes first.
            **kwargs: those of :meth:`torchrl.envs.EnvBase.reset`, ``set_state`` among them, for envs of
                TorchRL whose state travels in tensordicts.

        Returns:
            The root of the next step: observations and flags, ``[N]``.

        Raises:
            TypeError: an option that the task does not have, or a value of another type.
            ValueError: a value that is not allowed, or a wrong number of seeds or mappings.
            EnvFailure: envs have failed; its ``tensordict`` holds the others' results.

        Examples:
            >>> from torchrl_pool import PoolEnv
            >>> env = PoolEnv("CartPole-v1", num_envs=2)
            >>> env.reset(seed=0)["observation"].shape
            torch.Size([2, 4])
        """
        given = {"seed": seed, "options": options, "list_of_kwargs": list_of_kwargs}
        kwargs.update((name, value) for name, value in given.items() if value is not None)
        root: TensorDictBase = super().reset(tensordict, **kwargs)
        return root

    @not_traced
    def _reset(
        self,
        tensordict: TensorDictBase | None = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: ResetOptions = None,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None = None,
        set_state: bool | None = None,
        **kwargs: Any,
    ) -> TensorDictBase:
        if kwargs:
            raise TypeError(
                f"reset() of {type(self).__name__} takes 'seed', 'options' and 'list_of_kwargs', "
                f"got {', '.join(kwargs)}"
            )
        given = self._source.reset_arguments(seed, options, list_of_kwargs)
        mask = None if tensordict is None else tensordict.get("_reset", None)
        mask = None if mask is None else check_mask("_reset", mask, self.num_envs)
        if mask is not None and mask.all():
            mask = None
        if self._states is not None and tensordict is not None and self._states.are_in(tensordict):
            states = self._states.packed(tensordict)
            given.states = states if mask is None else states[mask.reshape(-1)], set_state
        return self._stepper.reset(mask, given, tensordict)

    # ---- step ------------------------------------------------------------------------------------------

    @not_traced
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = self._stepper.step(tensordict)
        assert following is not None  # without transforms, TorchRL has nothing to deal with
        return following

    @not_traced
    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Steps all envs, with an auto-reset of those whose episode ends, in one visit of each env.

        Args:
            tensordict: ``[N]``, the root with an action.

        Returns:
            The input with its ``"next"`` entry, which holds the last observation of an episode that ended,
            and the root of the next step, which holds the first observation of the new one: ``[N]`` each.
            Where no episode ended the two share tensors.

        Raises:
            RuntimeError: before the first reset, or with a locked tensordict.
            KeyError, TypeError, ValueError: an action that is missing, or not as ``action_spec`` has it.
            EnvFailure: envs have failed; its ``tensordict`` holds the others' results.
        """
        stepped = self._stepper.step_and_maybe_reset(self, tensordict, self._advance)
        if stepped is None:
            return self._step_then_reset(tensordict)
        return stepped if self._post_step_mdp_hooks is None else self._post_step_mdp_hooks(*stepped)

    def _advance(
        self, tensordict: TensorDict, entries: Mapping[Key, Any]
    ) -> tuple[TensorDict, TensorDict] | None:
        """A step of all envs: its ``"next"`` entry, and the root that follows it, after auto-reset.

        Args:
            tensordict: the root that it begins with, and the actions.
            entries: the same as a dict.
        """
        return self._stepper.advance(tensordict, entries)

    def _step_then_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """The plain road, for what the one visit does not handle."""
        tensordict, next_root = super().step_and_maybe_reset(tensordict)
        next_root.pop("_step", None)
        return tensordict, next_root


def _refuse_for_python(**arguments: Any) -> None:
    if given := [name for name, value in arguments.items() if value is not None]:
        raise TypeError(
            f"{', '.join(given)}: expected with native tasks alone, got with Python envs, which run in "
            "worker processes: see num_workers, and for options a list of callables"
        )
