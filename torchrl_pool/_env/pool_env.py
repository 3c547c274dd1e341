"""PoolEnv: the batch of envs as TorchRL sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import torch
from numpy.typing import DTypeLike
from tensordict import TensorDict, TensorDictBase
from torchrl._utils import seed_generator
from torchrl.envs import AsyncEnvPool, EnvBase

from torchrl_pool import _core
from torchrl_pool._env.actions import Actions
from torchrl_pool._env.arguments import (
    MOST_ENVS,
    MOST_INT,
    EnvIndex,
    check_choice,
    check_device,
    check_float_dtype,
    check_int,
    check_names,
    check_seconds,
    env_indices,
    number_of,
)
from torchrl_pool._env.errors import naming_doubles
from torchrl_pool._env.in_flight import RESET, STEP, STEP_AND_RESET, Finish, receive, send
from torchrl_pool._env.python_source import is_python
from torchrl_pool._env.random_actions import hidden_from_class, rand_action, rand_step
from torchrl_pool._env.reset_arguments import Options as ResetOptions
from torchrl_pool._env.simulators import Simulators
from torchrl_pool._env.source import TASK_DEFAULT
from torchrl_pool._env.sources import Task, known_task, source_of
from torchrl_pool._env.specs import (
    Key,
    full_action_spec,
    full_output_spec,
    key_of,
    nested_sizes_of,
)
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.stepper import Columns, Stepper
from torchrl_pool._env.tracing import not_traced
from torchrl_pool._plugins.loading import register

# What a subclass may have of its own, by which TorchRL's rollouts and collectors step and reset.
_STEPS_AND_RESETS = (
    "step", "_step", "_step_proc_data", "step_mdp", "reset", "_reset", "_reset_proc_data", "maybe_reset",
    "step_and_maybe_reset",
)  # fmt: skip


@AsyncEnvPool.register  # code that asks for an AsyncEnvPool, as LLMCollector, gets one
class PoolEnv(EnvBase):
    """A vectorized TorchRL environment: ``num_envs`` simulators in one C++ executor.

    Gives the trajectories of ``SerialEnv(num_envs, lambda: GymEnv(task))``, bit for bit (for Atari, of
    ``GymEnv`` with Gymnasium's ``AtariPreprocessing`` and ``FrameStackObservation``). Where ``task`` is a
    callable that returns a Python env, its envs run in this process, or in ``num_workers`` others, and give
    the trajectories of ``SerialEnv(num_envs, task)``. Tensors that a call returns belong to the caller: the
    pool never writes to them again.

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

    The ``async_*`` methods follow :class:`torchrl.envs.AsyncEnvPool` of torchrl 0.14: envs are sent, in any
    grouping and from any thread; whoever receives gets those that are ready first, sorted by their index. An
    env may be sent again as soon as it was received. A call that is refused changes nothing. While envs are
    in flight, calls for all envs (``step``, ``reset``, ``rollout``) are refused.

    ``env_index`` names the envs of the rows that are sent: an int, ints in a sequence, an array or a tensor,
    or a mask of ``num_envs`` bools; ``None``: the entry ``"env_index"`` of the tensordict, or all envs where
    it has none and a row for each. A single row needs no batch dimension. An env that is sent by an int (or
    by a tensor without dimensions) is received by that int alone, without a batch dimension. What is received
    holds ``"env_index"`` as an int64 tensor ``[k]``.

    Entries that the pool does not write travel with their env: those of the root into the root that follows,
    where an episode ends too; those under ``"next"`` into what the step returns.

    The tensors that were sent are read again when the result is received: do not write into them before.

    Args:
        task: the id of a native task (see :func:`~torchrl_pool.list_tasks`), a pair of dm_control's names,
            such as ``("cheetah", "run")``, or a list with one id per env, with entries that agree in name,
            shape and dtype. Or a callable that returns a Python env (of Gymnasium, TorchRL or PettingZoo), or
            a list with one callable per env; ``"gymnasium:ID"`` stands for ``gymnasium.make(ID)``. The first
            env of each callable is then made at once, to read its specs.
        num_envs: number of envs, N. Default: the length of a sequence of tasks.

    Keyword Args:
        num_threads: threads that step native envs, the calling one included. Default: the processors that
            this process may use (affinity mask, cgroup quota), at most ``num_envs``.
        num_workers: worker processes that run Python envs, in equal shares; at most ``num_envs`` are used.
            They import modules anew: they do not see what the program has changed in these. 0, the default:
            the envs run in this process, with all that it has, where a debugger reaches them; the only choice
            where there is no Linux.
        device: where outputs go. A CUDA device gets them through pinned memory, in its current stream and
            without blocking; actions may be there too, and a step waits for them alone. ``None``: CPU
            tensors in tensordicts without a device.
        pin_memory: whether CPU outputs are pinned. Default: only when the device is a CUDA device.
        seed: as ``set_seed(seed)`` right after construction. Default: seeds from the operating system.
        max_episode_steps: steps after which an episode is truncated; ``None``: never. Default: the task's. A
            limit within a Python env stays in force. Where agents have flags, the env's ``"done"`` and
            ``"truncated"`` are then theirs too, as with TorchRL's StepCounter.
        categorical_action_encoding: whether discrete actions are int64 numbers ``[N]`` or one-hot
            ``[N, n]``. Default: one-hot, as in :class:`~torchrl.envs.GymEnv`; numbers where there are groups
            of agents, as in :class:`~torchrl.envs.PettingZooWrapper`. Envs of TorchRL and PettingZoo keep the
            form that they have, numbers or vectors; ``True`` is refused where it is vectors.
        obs_dtype: ``torch.float32`` or ``torch.float64``, or the name of one, for all floating-point
            observations. Default: the task's own.
        info_keys: info entries to add to the observations: the task's own (see ``torchrl-pool info TASK``),
            or keys of a Gymnasium env's info dicts (``/`` separates nested levels; their specs are read from
            a step or more of the first env), PettingZoo's ``state``, and for every env ``step_count`` (int64
            ``[N, 1]``), ``episode_reward`` (``[N, 1]``, of the reward's dtype) and ``is_init`` (bool
            ``[N, 1]``), which equal what TorchRL's StepCounter, RewardSum and InitTracker write. Where each
            env has one float32 reward, ``exact_reward`` (float64 ``[N, 1]``) is its value before rounding.
            Where groups of agents have rewards, each has an ``episode_reward``: ``agent/episode_reward``.
        from_pixels: adds a picture of each env to the observations, ``"pixels"`` (uint8 ``[N, H, W, 3]``), as
            in :class:`~torchrl.envs.GymEnv`.
        pixels_only: with ``from_pixels``, leaves out the task's own observations.
        thread_affinity: processors to pin the pool's own threads to, in turn; the calling thread is not
            pinned.
        env_options: for each env a mapping of task options that override ``task_options``.
        step_timeout: seconds that an env may take for a step, a reset or its creation, checked about every 20
            ms. One that takes longer fails with :class:`EnvFailure`. Another thread replaces that of a native
            env, whose own thread stays until the call returns, after ``close()`` too; the env may be reset
            then. Python envs need ``num_workers`` of 1 or more: a worker process is ended, with all its
            envs, and restarted at their next reset. With a timeout the calling thread steps no native env
            itself, which costs microseconds per step. ``None``: no limit.
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
        >>> env.async_reset_send()
        >>> root = env.async_reset_recv(2)  # whichever are ready first
        >>> env.async_step_send(env.rand_action(root))
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        base = next(one for one in cls.__mro__[1:] if issubclass(one, PoolEnv))
        has_own = any(getattr(cls, name) is not getattr(base, name) for name in _STEPS_AND_RESETS)
        if has_own and "_advance" not in vars(cls):
            cls._steps_at_once = cls._writes_entries = False

    min_get: int = 1
    """How many results a receive waits for by default."""

    _writes_entries = True
    """Whether the executor's columns are the entries. Where a subclass computes these from them, after each
    call, neither transforms nor rollouts can be left to the executor."""
    _steps_at_once = True
    """Whether a step with auto-reset may go past TorchRL's code: not where a subclass has a step or a reset
    of its own, unless it has an ``_advance`` too, which does both."""
    rng: torch.Generator | None = None
    """What a subclass draws from in Python: it is a part of a collector's state."""

    def __init__(
        self,
        task: Task | Sequence[Task],
        num_envs: int | None = None,
        *,
        num_threads: int | None = None,
        num_workers: int = 0,
        device: torch.device | str | int | None = None,
        pin_memory: bool | None = None,
        seed: int | None = None,
        max_episode_steps: int | None = TASK_DEFAULT,
        categorical_action_encoding: bool | None = None,
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
        task = known_task(task)
        num_envs = check_int("num_envs", number_of(task, num_envs), minimum=1, maximum=MOST_ENVS)
        if max_episode_steps is not TASK_DEFAULT and max_episode_steps is not None:
            max_episode_steps = check_int("max_episode_steps", max_episode_steps, minimum=1, maximum=MOST_INT)
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
        self._pin_memory_wish = pin_memory
        self._steppers: weakref.WeakSet[Stepper] = weakref.WeakSet()  # its own, and those of fused envs
        step_timeout = check_seconds("step_timeout", step_timeout)
        self._source = source_of(
            task,
            num_envs,
            of_threads={
                "num_threads": num_threads,
                "thread_affinity": thread_affinity,
                "env_options": env_options,
            },
            of_workers={
                "num_workers": num_workers,
                "respawn": respawn,
                "step_timeout": step_timeout,
                "info_keys": info_keys,
                "obs_dtype": float_dtype,
                **of_front,
            },
            from_pixels=from_pixels,
            task_options=task_options,
            max_episode_steps=max_episode_steps,
            one_hot=None if categorical_action_encoding is None else not categorical_action_encoding,
        )
        # Each of TorchRL's envs has looked at its own flags, as in SerialEnv.
        self._allow_done_after_reset |= self._holds_torchrl
        try:
            layout = _core.LayoutOptions(
                info_keys=list(dict.fromkeys([*info_keys, *self._source.info_keys])),
                one_hot=self._source.one_hot,
                obs_dtype=None if float_dtype is None else str(float_dtype).removeprefix("torch."),
                from_pixels=from_pixels,
                pixels_only=pixels_only,
                refuse_nan=refuse_nan,
                strict_actions=is_strict,
            )
            self._simulators = Simulators(self, self._source, layout, step_timeout)
            self._describe(layout)
            if seed is not None:
                self.set_seed(seed)
        except BaseException:
            self._source.close()
            raise

    # ---- what envs read and write ----------------------------------------------------------------------

    def _describe(self, layout: _core.LayoutOptions) -> None:
        """Specs, and what follows from them."""
        source = self._source
        self.num_threads, self.num_workers = source.num_threads, source.num_workers
        self._configs = source.configs
        of_config = {config: config.outputs(layout) for config in dict.fromkeys(self._configs)}
        self._outputs = of_config[self._configs[0]]
        self._actions = Actions(self, source)
        self._supports_set_state = source.sets_state
        given = source.specs, source.nested_sizes
        self.action_spec = full_action_spec(self._configs, source.one_hot, self.device, *given)
        self.observation_spec, self.reward_spec, self.done_spec = full_output_spec(
            [of_config[config] for config in self._configs], self.device, *given
        )
        if (states := source.state_spec) is not None:
            states = states.expand(self.num_envs)
            self.state_spec = states if self.device is None else states.to(self.device)
        if source.group_map is not None:
            self.group_map = source.group_map
        keys = [key_of(spec) for spec in self._outputs]
        actions = [key for key, _, _ in self._actions.layout]
        self._nested = any(isinstance(key, tuple) for key in (*keys, *actions))
        in_root = [key_of(spec) for spec in self._outputs if spec.role != "reward"]
        nested_sizes = nested_sizes_of(source.nested_sizes, source.specs)
        self._next_root = NextRoot(keys, in_root, actions, self.done_keys, nested_sizes)
        self._use_device()

    def to(self, device: torch.device | str | int) -> Self:
        """Moves outputs to another device: as :meth:`torchrl.envs.EnvBase.to`."""
        check_device(device)
        env: Self = super().to(device)
        self._use_device()
        return env

    def _use_device(self) -> None:
        """Everything that follows from where the outputs go."""
        cuda = self.device is not None and self.device.type == "cuda"
        wish = self._pin_memory_wish
        self._pin_memory = cuda if wish is None else wish
        if self._pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True needs CUDA, which torch does not find here")
        self._on_cpu = self.device is None or self.device.type == "cpu"
        self._stepper = Stepper(
            self, Columns.of(self._outputs), self._actions, self._next_root, nested=self._nested
        )
        self._steppers.add(self._stepper)
        self.step_keys, self.root_keys = list(self._stepper.step_prototypes), self._stepper.root_keys

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
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        return self._stepper.reset(tensordict, **kwargs)

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
        stepped = None
        if self._steps_at_once:
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

    def rollout(self, max_steps: int, policy: Any = None, *args: Any, **kwargs: Any) -> TensorDictBase:
        """As :meth:`torchrl.envs.EnvBase.rollout`, also in its further arguments.

        Args:
            max_steps: how many steps are made at most.
            policy: what adds actions to a root; ``None``: random ones.
            *args: as in ``EnvBase``.
            **kwargs: as in ``EnvBase``, ``break_when_any_done`` among them.

        Returns:
            The steps, ``[N, T]``.
        """
        with naming_doubles(self):
            steps: TensorDictBase = super().rollout(max_steps, policy, *args, **kwargs)
        return steps

    # ---- asynchronous calls ----------------------------------------------------------------------------

    _env_idx_key: str = "env_index"

    @property
    def env_batch_sizes(self) -> list[torch.Size]:
        """Batch size of each env by itself."""
        return [torch.Size([])] * self.num_envs

    @property
    def exchange_keys(self) -> tuple[Key, ...]:
        """Entries that pass between processes through shared memory: none."""
        return ()

    def stats(self, *, reset: bool = False) -> dict[str, float]:
        """Statistics of the exchange between processes, of which there are none.

        Args:
            reset: has no effect.
        """
        return {}

    def async_step_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """Starts a step of these envs.

        Args:
            tensordict: ``[k]``, with an action in each row; ``"env_index"`` in it names the envs where
                ``env_index`` is not given.
            env_index: the envs of its rows, see above; ``None``: all envs, or those that the tensordict
                names.

        Raises:
            IndexError, ValueError: an ``env_index`` that does not exist, or names an env twice.
            TypeError: an ``env_index`` of neither ints nor bools.
            RuntimeError: an env that is in flight already, or has not been reset.
        """
        self._check_async()
        send(self._stepper, STEP, tensordict, env_index)

    def _check_async(self) -> None:
        """Asynchronous calls run neither ``_step`` nor ``_reset``."""
        if self._steps_at_once:
            return
        names = "async_step_recv", "async_step_and_maybe_reset_recv", "async_reset_recv"
        base = next(cls for cls in type(self).__mro__ if vars(cls).get("_steps_at_once"))
        if any(getattr(type(self), name) is not getattr(base, name) for name in names):
            return
        raise TypeError(
            f"{type(self).__name__} has a step or a reset of its own, which asynchronous calls do not run: "
            "override the async_*_recv methods too, or change entries in a transform"
        )

    def async_step_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``step`` returns for those envs that are ready: ``[k]``.

        Args:
            min_get: the least number of envs to wait for. Default: 1.
            env_index: the one env to wait for, which was sent by itself; ``None``: whichever are ready.
            max_get: the largest number of envs to return; ``None``: all that are ready.
            timeout: seconds to wait for. With it, the call waits until then for more than ``min_get``;
                without, it returns as soon as ``min_get`` are ready.

        Returns:
            The rows that were sent, ``[k]``, sorted by env, with ``"next"`` and ``"env_index"`` (int64
            ``[k]``); without a batch dimension for a single ``env_index``.

        Raises:
            RuntimeError: more results wanted than are outstanding.
            TimeoutError: fewer than ``min_get`` results are there in time; they wait for the next call.
            EnvFailure: envs have failed; the others' results wait for the next call.
        """
        wanted = min_get, env_index, max_get, timeout
        return receive(self._stepper, STEP, *wanted, self._finish_step)[0]

    def async_step_and_maybe_reset_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """As :meth:`async_step_send`, with an auto-reset where the step ends an episode."""
        self._check_async()
        send(self._stepper, STEP_AND_RESET, tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """What ``step_and_maybe_reset`` returns for those envs that are ready: two tensordicts ``[k]``.

        As :meth:`async_step_recv`. The second one is the root of the next step: add an action and send it.
        """
        wanted = min_get, env_index, max_get, timeout
        data, next_root = receive(self._stepper, STEP_AND_RESET, *wanted)
        assert next_root is not None
        return data, next_root

    def async_reset_send(
        self,
        tensordict: TensorDictBase | None = None,
        env_index: EnvIndex = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: ResetOptions = None,
    ) -> None:
        """Starts a new episode in these envs; without arguments, in all.

        Args:
            tensordict: ``[k]``, or ``None``; ``"env_index"`` in it names the envs where ``env_index`` is not
                given.
            env_index: the envs of its rows, see above; ``None``: all envs, or those that the tensordict
                names.
            seed: env i gets ``seed + i``, or the i-th of ``num_envs`` seeds, as in :meth:`reset`.
            options: those of each env's reset, as in :meth:`reset`.
        """
        if tensordict is None and env_index is None:
            env_index = range(self.num_envs)
        self._check_async()
        given = self._source.reset_arguments(seed, options, None)
        send(self._stepper, RESET, tensordict, env_index, given=given)

    def async_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``reset`` returns for those envs that are ready: ``[k]``. As :meth:`async_step_recv`."""
        wanted = min_get, env_index, max_get, timeout
        return receive(self._stepper, RESET, *wanted, self._finish_reset)[0]

    _finish_step: Finish | None = None
    """What a subclass makes of received steps, while they can still be received again."""
    _finish_reset: Finish | None = None
    """The same of resets."""

    # ---- random actions --------------------------------------------------------------------------------

    @hidden_from_class
    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Adds random actions to a root: of all envs, or of those that its entry ``"env_index"`` names.

        Each row gets an action of its own env, whose bounds may differ from the others'.

        Args:
            tensordict: of shape ``[num_envs]``, or ``[k]`` or ``[]`` with an ``"env_index"`` of that shape;
                ``None``: a new one of shape ``[num_envs]``.

        Raises:
            KeyError: fewer rows than envs, and no ``"env_index"``.
        """
        return rand_action(self, tensordict)

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Steps the envs of a root, as :meth:`rand_action` takes it, with random actions.

        Only these envs move; others may be in flight.
        """
        return rand_step(self, tensordict)

    # ---- the simulators as they are between two calls --------------------------------------------------

    def start(self) -> None:
        """Creates the simulators now instead of at the first reset."""
        self._simulators.start()

    def __getitem__(self, env_index: Any) -> Any:
        raise TypeError(
            f"{type(self).__name__} has no views of its envs: single_envs(env)[{env_index!r}]() is one of "
            f"them, and env.call(…, env_index={env_index!r}) asks it"
        )

    def get_state(self, env_index: EnvIndex = None) -> list[bytes]:
        """The states of envs, one ``bytes`` each: simulator, random stream and episode counters.

        A restored env continues bit for bit, in another pool of the same task too.

        Args:
            env_index: the envs, by number or by a mask of bools; ``None``: all.

        Raises:
            NotImplementedError: the task cannot save its state.
            RuntimeError: an env has not been reset.
        """
        return self._simulators.get_state(self._running(), self._indices(env_index))

    def set_state(self, state: bytes | Sequence[bytes], env_index: EnvIndex = None) -> None:
        """Puts simulators into states that :meth:`get_state` returned; the next step continues from there.

        The envs load in parallel, and like a step this can be interrupted: each env then has its state from
        before, or the new one.

        Args:
            state: one state for each env of ``env_index``, or one for all of them.
            env_index: the envs, by number or by a mask of bools; ``None``: all.

        Raises:
            TypeError: a state is not ``bytes``.
            ValueError: a state of another task, or corrupt, or a wrong number of states. An env whose state
                is refused has not changed; the others have theirs.
            EnvFailure: an env has not loaded its state within ``step_timeout``.
        """
        self._simulators.set_state(self._simulators.start(), state, self._indices(env_index))

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state dicts of TorchRL envs in workers, such as the statistics of their transforms.

        As that of ``SerialEnv``: ``"worker0"`` holds that of env 0, and so on. Simulators are not in it: see
        :meth:`get_state`.
        """
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        if self._holds_torchrl and kwargs.get("destination") is None:
            state.update((f"worker{i}", own) for i, own in enumerate(self.call("state_dict")))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Loads what :meth:`state_dict` returned, or what one env's ``state_dict`` did into all of them.

        Args:
            state_dict: the one or the other.
            *args: given to the envs' ``load_state_dict``.
            **kwargs: the same.

        Raises:
            EnvFailure: it is not of such envs.
            KeyError: it is of fewer envs.
        """
        if not self._holds_torchrl:
            return super().load_state_dict(state_dict, *args, **kwargs)
        is_of_one = "worker0" not in state_dict
        own = [state_dict if is_of_one else state_dict[f"worker{i}"] for i in range(self.num_envs)]
        self._call("load_state_dict", self._indices(None), [(one, *args) for one in own], kwargs)
        return None

    @property
    def _holds_torchrl(self) -> bool:
        return self._source.is_torchrl

    def render(self, env_index: EnvIndex = None) -> torch.Tensor:
        """Pictures of envs as they are now: uint8 ``[k, H, W, 3]``. No ``render_mode`` is needed.

        Args:
            env_index: the envs, by number or by a mask of bools; ``None``: all.

        Raises:
            NotImplementedError: the task cannot be rendered.
            RuntimeError: an env has not been reset.
            ValueError: the envs' pictures differ in size.
        """
        return self._simulators.render(self._running(), self._indices(env_index))

    def call(self, name: str, *args: Any, env_index: EnvIndex = None, **kwargs: Any) -> list[Any]:
        """Calls a method of Python envs, wherever they run: one result for each env.

        The outermost wrapper that has the method is called, of TorchRL or Gymnasium.

        Args:
            name: the method.
            *args: what it is given; the same for all envs.
            env_index: the envs, by number or by a mask of bools; ``None``: all.
            **kwargs: what it is given by name.

        Raises:
            EnvFailure: it raised, or there is no such method; with the traceback of its process.
            TypeError: the envs are native ones.

        Examples:
            >>> from torchrl_pool import PoolEnv
            >>> env = PoolEnv("gymnasium:CartPole-v1", num_envs=2, num_workers=1)
            >>> env.call("has_wrapper_attr", "gravity", env_index=0)
            [True]
        """
        indices = self._indices(env_index)
        return self._call(name, indices, [args] * len(indices), kwargs)

    def _call(
        self, name: str, indices: list[int], arguments: Sequence[tuple[Any, ...]], named: Mapping[str, Any]
    ) -> list[Any]:
        return self._ask_each("call", indices, lambda share: [name, [arguments[i] for i in share], named])

    def get_attr(self, name: str, env_index: EnvIndex = None) -> list[Any]:
        """An attribute of Python envs: one value for each env. Otherwise as :meth:`call`."""
        return self._ask_each("get_attr", self._indices(env_index), lambda share: [name])

    def has_attr(self, name: str, env_index: EnvIndex = None) -> list[bool]:
        """Whether Python envs have an attribute, which is not fetched. Otherwise as :meth:`call`."""
        return self._ask_each("has_attr", self._indices(env_index), lambda share: [name])

    def set_attr(self, name: str, values: Any, env_index: EnvIndex = None) -> None:
        """Sets an attribute of Python envs, in the wrapper that has it. Otherwise as :meth:`call`.

        A new attribute is set in the outermost wrapper of Gymnasium, as by ``set_wrapper_attr``, or in the
        outermost of all if there is none.

        Args:
            name: the attribute.
            values: a list or tuple with one value for each env; anything else: for all of them.
            env_index: as in :meth:`call`.

        Raises:
            ValueError: there are not as many values as envs.
        """
        indices = self._indices(env_index)
        own = list(values) if isinstance(values, (list, tuple)) else [values] * len(indices)
        if len(own) != len(indices):
            raise ValueError(f"values: expected {len(indices)} of them, one per env, got {len(own)}")
        self._ask_each("set_attr", indices, lambda share: [name, [own[i] for i in share]])

    def _ask_each(
        self, what: str, indices: list[int], arguments: Callable[[list[int]], list[Any]]
    ) -> list[Any]:
        pool = self._running() if self._simulators.was_closed else self._simulators.start()
        return self._source.ask(pool, what, indices, arguments)

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)

    # ---- from the first reset to the end ---------------------------------------------------------------

    def _running(self) -> _core.Pool:
        pool = self._simulators.pool
        if pool is None and self._simulators.was_closed:
            by = f" by {self._simulators.closed_by}" * bool(self._simulators.closed_by)
            raise RuntimeError(f"{self._name} was closed{by}: reset() starts it again")
        if pool is None:
            raise RuntimeError(f"{self._name} has no running simulators: call reset() before the first step")
        return pool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Ends the threads and destroys the simulators. A later reset starts new ones, seeded as at first.

        Leaving a ``with`` block does the same.

        Args:
            raise_if_closed: whether to refuse to close a pool twice, as ``ParallelEnv`` does. Default:
                closing a closed pool does nothing.

        Raises:
            RuntimeError: ``raise_if_closed``, and the pool is closed.

        Examples:
            >>> from torchrl_pool import PoolEnv
            >>> with PoolEnv("CartPole-v1", num_envs=2) as env:
            ...     env.rollout(3).shape
            torch.Size([2, 3])
        """
        if raise_if_closed and self._simulators.was_closed:
            raise RuntimeError(f"close(raise_if_closed=True): {self._name} is closed already")
        try:
            self._simulators.close()
        finally:
            if self._simulators.was_closed:  # else it was refused, or interrupted before it began
                for stepper in list(self._steppers):
                    stepper.let_go()

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds every env, as ``SerialEnv`` of ``GymEnv``'s does, and returns the seed that follows.

        Env 0 gets ``seed``, and each further one the next seed of TorchRL's sequence. As in ``GymEnv``,
        each env is also reset once with its seed, so that the next ``reset()`` makes the second draw of its
        stream.

        Args:
            seed: the first env's; ``None`` changes nothing.
            static_seed: whether all envs get the same seed.

        Returns:
            The seed that follows the last env's, as TorchRL's ``set_seed`` does; ``None`` for ``None``.
        """
        if seed is None:
            return None
        seed = check_int("seed", seed, minimum=0)
        seeds = []
        for _ in range(self.num_envs):
            seeds.append(seed)
            if not static_seed:
                seed = seed_generator(seed)
        self._simulators.seed(dict(enumerate(seeds)))
        return seed

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._simulators.pool is not None:
            raise TypeError(
                f"{self._name} cannot be pickled or copied while it runs: its simulators live in this "
                "process. Do so before the first reset or after close(), or take their states with "
                "get_state()"
            )
        paths = self._source.plugin_paths()
        arguments = {k: v for k, v in self._arguments.items() if v is not TASK_DEFAULT}
        arguments.update(device=self.device, run_type_checks=self.run_type_checks)
        return _rebuild, (type(self), paths, arguments, self._simulators.entropy, self._is_spec_locked)

    def __repr__(self) -> str:
        """In one line: what it was made of, its time limit, and the entries of one env."""
        (limit, *others) = dict.fromkeys(self._source.limits)
        limits = [] if others or not limit else [f"max_episode_steps={limit}"]
        entries = [(s.name, s.dtype, list(s.shape)) for s in self._outputs if s.role == "observation"]
        for key, dtype, shape in self._actions.layout:
            name = key if isinstance(key, str) else "/".join(key)
            entries.append((name, str(dtype).removeprefix("torch."), list(shape[1:])))
        shown = ", ".join(f"{name}: {dtype} {shape}" for name, dtype, shape in entries)
        return f"{', '.join([self._name[:-1], *limits])}; {shown})"

    @property
    def _name(self) -> str:
        """What errors call it."""
        task: Any = self.task
        if not isinstance(task, str) and isinstance(task, Sequence):
            # Callables need not have hashes.
            task = list({id(one): one for one in task}.values()) if is_python(task) else sorted(set(task))
        return f"{type(self).__name__}({task!r}, num_envs={self.num_envs}, device={self.device})"


def _rebuild(
    cls: type[PoolEnv],
    plugin_paths: list[str],
    arguments: dict[str, Any],
    entropy: list[list[int] | None],
    spec_locked: bool,
) -> PoolEnv:
    for path in plugin_paths:
        register(path)
    env = cls(**arguments, spec_locked=spec_locked)
    env._simulators.entropy = entropy
    return env
