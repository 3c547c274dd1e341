"""A pool below TorchRL: NumPy's arrays go straight to the executor, and it writes straight into others."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from torchrl_pool import _core
from torchrl_pool._arrays.spaces import Array, Space, gather_of, scatter_of, space_of
from torchrl_pool._env.arguments import number_of
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.python_source import NATIVE_KEYS, is_python
from torchrl_pool._env.specs import actions_of
from torchrl_pool._goals import goal_reward, has_goals
from torchrl_pool._plugins import registry
from torchrl_pool._workers.wrappers import called

Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = list[Array]  # one per output of the pool: [num_envs, *shape]
Infos: TypeAlias = dict[int, dict[Any, Any]]  # by env
_EXACT_REWARD = "exact_reward"
_NOT_FOR_ARRAYS = (
    "device", "pin_memory", "categorical_action_encoding", "run_type_checks", "allow_done_after_reset"
)  # fmt: skip


class ArrayPool:
    """A :class:`~torchrl_pool.PoolEnv` whose calls take and return NumPy's arrays, without tensordicts.

    Each call returns fresh arrays, which belong to the caller: the pool never writes to them again.

    Args:
        task, num_envs: as in :class:`~torchrl_pool.PoolEnv`. Envs of Python must be Gymnasium's.

    Keyword Args:
        info_keys: which infos are wanted; ``None``: all that the task, or the Python envs, have. Those of
            Python envs come as they are, by :meth:`take_infos`.
        passed_infos: infos of Python envs that are wanted in any case.
        exact_reward: whether the caller wants rewards before they are rounded to float32.
        render_mode: of a task's envs ``"rgb_array"`` or ``None``; of those of ``"gymnasium:ID"`` what they
            are made with; of those that a callable makes what it gives them, or ``None``.
        shows_tasks: whether a task's envs have ``"rgb_array"`` in any case.
        **options: what else ``PoolEnv`` takes, the task's options among it.

    Attributes:
        single_observation_space, single_action_space: of one env.
        observed: the columns of the observations.
        infos: the columns of infos, by name.
        render_mode: of the first env.
        is_fresh: whether no env has been reset or changed since it was made.
        reward, exact_reward, terminated, truncated, done: which column each of them is; ``exact_reward`` is
            the reward's where it was not asked for, and where rewards are not rounded.

    Raises:
        TypeError: an option that arrays have no use for; Python envs that have no spaces; envs that do not
            give one reward each.
    """

    def __init__(
        self,
        task: Any,
        num_envs: int | None,
        *,
        info_keys: Sequence[str] | None = None,
        passed_infos: Sequence[str] = (),
        exact_reward: bool = False,
        render_mode: str | None = None,
        shows_tasks: bool = False,
        **options: Any,
    ) -> None:
        if "seed" in options:
            raise TypeError(
                "seed: not an argument of the constructor: pass it to reset(seed=...), as in Gymnasium, "
                "or to seed(), as in Stable-Baselines3"
            )
        if unknown := [name for name in _NOT_FOR_ARRAYS if name in options]:
            raise TypeError(
                f"{', '.join(unknown)}: for PoolEnv alone, which gives tensors; this class gives NumPy arrays"
            )
        self.num_envs = num_envs = number_of(task, num_envs)
        self.render_mode = self._given_render_mode = render_mode
        self._options = options
        self._is_python, self.is_fresh = is_python(task), True
        wanted: tuple[str, ...] | None = ()
        if self._is_python:
            if render_mode is not None and _are_ids(task):
                options = {**options, "render_mode": render_mode}
            if info_keys is None:
                wanted, keys = None, []
            else:
                keys = [key for key in info_keys if key in NATIVE_KEYS]
                wanted = tuple(dict.fromkeys([key for key in info_keys if key not in keys] + [*passed_infos]))
        else:
            if render_mode not in (None, "rgb_array"):
                raise ValueError(f"render_mode: expected 'rgb_array' or None, got {render_mode!r}")
            if shows_tasks:
                self.render_mode = "rgb_array"
            config = _config_of(task, options)
            specs = config.specs
            _check_rewards(task, specs)
            # Tasks that give doubles have none: nothing is rounded.
            exact_reward = exact_reward and _EXACT_REWARD in config.native_keys
            keys = [s.name for s in specs if s.role == "info"] if info_keys is None else [*info_keys]
        self._passes_infos, self._has_unread_infos = wanted != (), False
        try:
            self.env = PoolEnv(
                task,
                num_envs,
                _of_front={"passed_infos": wanted, "own_names": True},
                categorical_action_encoding=True,
                info_keys=[*keys, _EXACT_REWARD] if exact_reward else keys,
                **options,
            )
        except ValueError as error:  # of Python envs it is known once they are made
            if exact_reward and f"no info key {_EXACT_REWARD!r}" in str(error):
                raise TypeError(f"{task!r}: expected one reward for each env") from None
            raise
        try:
            self._describe(keys)
            if self._is_python:
                self.render_mode = self._own_render_mode(render_mode)
        except BaseException:
            self.close()
            raise

    def remade(self, front: Any, make: Callable[[], Any]) -> tuple[Any, ...]:
        """What ``__reduce__`` of a vector env around this pool returns: how to make another one.

        Args:
            front: the vector env.
            make: makes it anew, with another pool.

        Raises:
            TypeError: envs have begun, or were changed, which another pool's would not know of.
        """
        if not self.is_fresh:
            raise TypeError(
                f"{front!r} cannot be pickled or copied after its envs were reset or changed, for simulators "
                "cannot be copied: do so before the first reset"
            )
        return make, (), {name: value for name, value in vars(front).items() if value is not self}

    def _describe(self, info_keys: Sequence[str]) -> None:
        env, outputs = self.env, self.env._outputs
        first = env._configs[0]

        def is_number(spec: _core.Spec) -> bool:
            """Whether it is one number for an env, where a tensordict needs a dimension for it."""
            return list(spec.shape) == [1] and spec.role != "observation"

        names = [spec.name for spec in outputs]
        _check_rewards(env.task, outputs)
        self.reward = [spec.role for spec in outputs].index("reward")
        self.exact_reward = names.index(_EXACT_REWARD) if _EXACT_REWARD in names else self.reward
        self.terminated, self.truncated, self.done = map(names.index, ("terminated", "truncated", "done"))
        shown = dict.fromkeys([*info_keys, *env._source.info_keys])
        self.infos = {name: names.index(name) for name in shown}
        self._rows = [
            ((self.num_envs, *(() if is_number(spec) else spec.shape)), np.dtype(spec.dtype))
            for spec in outputs
        ]
        self.observed = [i for i, spec in enumerate(outputs) if spec.role == "observation"]
        self._actions = [
            (spec.name, (self.num_envs, *spec.shape), np.dtype(spec.dtype)) for spec in actions_of(first)
        ]
        # Arrays hold no states of TorchRL's envs, which go on from their own.
        read = [spec for spec in first.specs if spec.role == "action"]
        self._states = [
            np.zeros((self.num_envs, *spec.shape), spec.dtype) for spec in read[len(self._actions) :]
        ]
        self._spare: Columns | None = None
        self._calls = _core.Calls()
        self.single_observation_space, self.single_action_space = self._spaces()
        self._gather = gather_of(self.single_observation_space)
        # Tensordicts have a dimension for the single numbers of Gymnasium's envs; tasks choose theirs.
        self._scatter = scatter_of(self.single_action_space, (1,) if self._is_python else ())

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Of one env, as Gymnasium has it: a task's with the frames per second that Gymnasium's env has."""
        task = self.env.task
        if self._is_python:
            return dict(self.env.get_attr("metadata", 0)[0])
        own: Mapping[str, Any] = {}
        if self.render_mode is not None and isinstance(task, str) and task in gymnasium.registry:
            with contextlib.closing(gymnasium.make(task, disable_env_checker=True)) as env:
                own = env.metadata
        return {**own, "render_modes": ["rgb_array"]}

    def _own_render_mode(self, given: str | None) -> str | None:
        """Of the first Python env.

        Raises:
            ValueError: another one was given.
        """
        has_one = self.env.has_attr("render_mode", 0)[0]
        own: str | None = self.env.get_attr("render_mode", 0)[0] if has_one else None
        if given not in (None, own):
            raise ValueError(
                f"render_mode: expected {own!r}, which the envs were made with, got {given!r}: pass it to "
                "the callable that makes them"
            )
        return own

    def _spaces(self) -> tuple[Space, Space]:
        task = self.env.task if isinstance(self.env.task, str) else ""
        if not self._is_python:
            observation = space_of([self.env._outputs[i] for i in self.observed])
            if isinstance(observation, gymnasium.spaces.MultiDiscrete) and task in gymnasium.registry:
                # Entries do not tell a Tuple of Discrete spaces from it, but Gymnasium's env does.
                with contextlib.closing(gymnasium.make(task, disable_env_checker=True)) as env:
                    observation = env.observation_space
            return observation, space_of(actions_of(self.env._configs[0]))
        names = ("observation_space", "action_space")
        try:
            with _attribute_errors():
                observation, action = (self.env.get_attr(name, 0)[0] for name in names)
        except AttributeError as error:
            raise TypeError(f"{self.env.task!r}: expected envs of Gymnasium, with spaces: {error}") from None
        return observation, action

    def spaces(self) -> tuple[list[Space], list[Space]]:
        """The observation spaces of all envs, and their action spaces."""
        task = self.env.task
        if not self._is_python or isinstance(task, str) or callable(task):
            of_all = self.single_observation_space, self.single_action_space
            return [of_all[0]] * self.num_envs, [of_all[1]] * self.num_envs
        first_of: dict[int, int] = {}  # of each callable, the env that is made already
        for env, one in enumerate(task):
            first_of.setdefault(id(one), env)
        kinds = [list(first_of).index(id(one)) for one in task]
        observations, actions = (
            self.get_attr(name, list(first_of.values())) for name in ("observation_space", "action_space")
        )
        return [observations[kind] for kind in kinds], [actions[kind] for kind in kinds]

    # ---- calls -----------------------------------------------------------------------------------------

    def observations(self, columns: Columns) -> Any:
        """The observations of a batch, as the batched observation space has them."""
        return self._gather(iter([columns[i] for i in self.observed]))

    def reset(
        self,
        seeds: Sequence[int | None],
        options: Sequence[Mapping[str, Any] | None],
        mask: Mask | None = None,
    ) -> Columns:
        """Begins episodes, of all envs or of those of the mask; the others' rows hold zeros.

        Args:
            seeds: of each env; ``None``: its random stream goes on.
            options: of each env's ``reset``.
        """
        self._begin()
        own = [{"seed": s, "options": o} for s, o in zip(seeds, options, strict=True)]
        given = self.env._source.reset_arguments(None, None, own)
        columns = self._empty(np.zeros if mask is not None else np.empty)
        columns[self.reward].fill(0)
        tensor = None if mask is None else torch.from_numpy(mask)
        try:
            self.env._simulators.reset(self._calls, self._root(columns), tensor, given)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        return columns

    def step(self, actions: Any, ended: Mask | None = None) -> tuple[Columns, EnvFailure | None]:
        """Steps all envs but those that have ended, which begin episodes and earn nothing by it.

        Returns:
            The columns, with zeros in the rows of envs that have failed; the failure of these.
        """
        sent = self._checked(actions)
        columns, failure = self._empty(), None
        self._begin()
        pool = self.env._running()
        if ended is not None:
            self.env._source.revive(pool)
        try:
            self._calls.step(pool, sent, columns, begins=ended)
        except _core.EnvFailure as error:
            failure = env_failure(error, None)
            columns = _without_hung(columns, failure)
        if ended is not None:
            columns[self.reward][ended] = 0
        return columns, failure

    def step_and_reset(self, actions: Any) -> tuple[Columns, Columns | None, EnvFailure | None]:
        """Steps all envs, and begins new episodes where the old ones have ended.

        Returns:
            What the step gave, with zeros in the rows of envs that have failed; what the next one follows,
            without rewards, or ``None``: the same; the failure of these envs.
        """
        sent = self._checked(actions)
        columns = self._empty()
        self._begin()
        root, self._spare = self._spare or self._empty(), None
        try:
            pool, to = self.env._running(), self._root(root)
            results = self._calls.step_and_reset(pool, sent, columns, to)
        except _core.EnvFailure as error:
            failure = env_failure(error, None)
            columns, root = _without_hung(columns, failure), _without_hung(root, failure)
            goes_on = ~columns[self.done]
            for first, column in zip(root, columns, strict=True):
                first[goes_on] = column[goes_on]
            return columns, root, failure
        assert results is not None
        if results[2] > 0:
            return columns, root, None
        self._spare = root
        return columns, None, None

    def _begin(self) -> None:
        """Forgets what was not read of a call before, which has failed or was interrupted."""
        self.is_fresh = False
        if not self._passes_infos:
            return
        if self._has_unread_infos:
            self.take_infos()
        self._has_unread_infos = True

    def take_infos(self) -> tuple[Infos, Infos]:
        """What Python envs have given in the last call, once: in its steps, and in its resets."""
        steps: Infos = {}
        resets: Infos = {}
        if self._passes_infos:
            for env, is_reset, info in self.env._source.take_infos():
                (resets if is_reset else steps)[env] = info
            self._has_unread_infos = False
        return steps, resets

    def pictures(self) -> list[Any]:
        """All envs as they are now: of a task's uint8 ``[H, W, 3]``, of others what ``render`` gives."""
        return self.call("render", range(self.num_envs))

    def close(self) -> None:
        self.env.close()

    # ---- attributes and methods of the envs ------------------------------------------------------------

    def get_attr(self, name: str, indices: Sequence[int]) -> list[Any]:
        """An attribute of these envs; of a task's: its options, its spaces, its spec and its render mode.

        Raises:
            AttributeError: an env has no such attribute.
        """
        if self._is_python:
            with _attribute_errors():
                return self.env.get_attr(name, list(indices))
        return [self._own_attribute(name, index) for index in indices]

    def _own_attribute(self, name: str, index: int) -> Any:
        """Of a native env."""
        match name:
            case "render_mode":
                return self.render_mode
            case "observation_space":
                return self.single_observation_space
            case "action_space":
                return self.single_action_space
            case "metadata":
                return self.metadata
            case "spec":
                return self._spec(index)
            case "render":
                return lambda: self.env.render(index)[0].numpy()
            case "compute_reward" if has_goals(task := self._task_of(index)):
                return goal_reward(task, self._option("reward_type", index)).compute_reward
        return self._option(name, index)

    def _spec(self, index: int) -> EnvSpec | None:
        """As that of an env which ``gymnasium.make`` has made with what this pool was given.

        None: of an id that Gymnasium would refuse.
        """
        task = self._task_of(index)
        spec, info = copy.deepcopy(gymnasium.registry.get(task)), registry.task_info(task)
        if spec is None:  # the package that registers it has not been imported
            try:
                spec = EnvSpec(
                    task,
                    reward_threshold=info.reward_threshold,
                    max_episode_steps=info.max_episode_steps,
                )
            except gymnasium.error.Error:
                return None
        spec.max_episode_steps = self._options.get("max_episode_steps", spec.max_episode_steps)
        given = {**self._options, **self._options_of(index)}
        known = {option.name for option in info.options}
        spec.kwargs.update((name, given[name]) for name in given if name in known)
        if self._given_render_mode is not None:
            spec.kwargs["render_mode"] = self._given_render_mode
        return spec

    def has_attr(self, name: str, indices: Sequence[int]) -> bool:
        """Whether these envs have such an attribute, which is not fetched."""
        if self._is_python:
            return all(self.env.has_attr(name, list(indices)))
        try:
            self.get_attr(name, indices)
        except AttributeError:
            return False
        return True

    def _task_of(self, index: int) -> str:
        given: Any = self.env.task
        task: str = given if isinstance(given, str) else given[index]
        return task

    def _option(self, name: str, index: int) -> Any:
        task = self._task_of(index)
        options = {option.name: option.default for option in registry.task_info(task).options}
        if name not in options:
            has = ", ".join(options) or "none"
            raise AttributeError(f"{name!r}: expected an option of the native task {task!r} ({has})")
        return {**options, **self._options, **self._options_of(index)}[name]

    def _options_of(self, index: int) -> Mapping[str, Any]:
        """Which this env alone was given."""
        own: Sequence[Mapping[str, Any]] | None = self._options.get("env_options")
        return {} if own is None else own[index]

    def set_attr(self, name: str, values: Any, indices: Sequence[int]) -> None:
        """Sets an attribute of these Python envs: each its own if ``values`` is a list or a tuple.

        Raises:
            AttributeError: the envs are a task's.
        """
        if not self._is_python:
            raise AttributeError(
                f"{name!r}: attributes of the native task {self.env.task!r} cannot be set; pass its "
                "options, or env_options, at construction"
            )
        self.is_fresh = False
        with _attribute_errors():
            self.env.set_attr(name, values, list(indices))

    def call(self, name: str, indices: Sequence[int], *args: Any, **kwargs: Any) -> list[Any]:
        """Calls a method of these envs, or gets an attribute that cannot be called.

        Raises:
            AttributeError: an env has no such method; a task's have but their attributes, ``render``, and
                with goals ``compute_reward``.
        """
        if self._is_python:
            self.is_fresh = False
            with _attribute_errors():
                return self.env.call(name, *args, env_index=list(indices), **kwargs)
        return [called(one, args, kwargs) for one in self.get_attr(name, indices)]

    def is_wrapped(self, kind: type[Any], indices: Sequence[int]) -> list[bool]:
        """Whether each of these envs has a wrapper of this class; a task's envs have none."""
        if not self._is_python:
            return [False] * len(indices)
        name = [kind.__module__, kind.__qualname__]
        return self.env._ask_each("is_wrapped", list(indices), lambda share: name)

    # ---- memory ----------------------------------------------------------------------------------------

    def _empty(self, make: Callable[..., Array] = np.empty) -> Columns:
        return [make(shape, dtype) for shape, dtype in self._rows]

    def _root(self, columns: Columns) -> list[Array | None]:
        """Those that a reset writes to: all but the reward."""
        return [*columns[: self.reward], None, *columns[self.reward + 1 :]]

    def _checked(self, actions: Any) -> Columns:
        """The actions as the executor reads them, which checks their values."""
        columns = self._scatter(actions)
        for i, (name, shape, dtype) in enumerate(self._actions):
            columns[i] = self._as_column(columns[i], name, shape, dtype)
        return columns + self._states if self._states else columns

    def _as_column(self, action: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        array = np.asarray(action)
        if array.shape != shape:
            raise ValueError(f"{name!r}: expected actions of shape {shape}, got {array.shape}")
        if array.dtype != dtype:
            # Python envs may take whole numbers as floats: they get their space's dtype.
            takes_floats = array.dtype.kind in "biuf" and is_python(self.env.task)
            if not takes_floats and not np.can_cast(array.dtype, dtype, "same_kind"):
                raise TypeError(f"{name!r}: expected actions of dtype {dtype}, got {array.dtype}")
            with np.errstate(invalid="ignore"):  # NaN is no integer, which is an error below
                given, array = array, array.astype(dtype)
            # Floats are rounded to floats; what is no such integer would become another action.
            if array.dtype.kind != "f" and not np.array_equal(array, given):
                raise ValueError(
                    f"{name!r}: expected numbers that fit {dtype}, got {given[given != array][0]}"
                )
        return np.ascontiguousarray(array)


def _without_hung(columns: Columns, failure: EnvFailure) -> Columns:
    """With zeros in the rows of envs that hang, in memory that their threads do not have."""
    if not failure.hung:
        return columns
    copies = [column.copy() for column in columns]
    for copied in copies:
        copied[failure.hung] = 0
    return copies


@contextlib.contextmanager
def _attribute_errors() -> Iterator[None]:
    """As in one process, of an env that has no such attribute."""
    try:
        yield
    except EnvFailure as failure:
        if failure.messages and failure.messages[0].startswith("AttributeError"):
            raise AttributeError(str(failure)) from failure
        raise


def _are_ids(task: Any) -> bool:
    """Whether Gymnasium makes all of these Python envs."""
    return isinstance(task, str) or (not callable(task) and all(isinstance(one, str) for one in task))


def _config_of(task: Any, options: Mapping[str, Any]) -> _core.Config:
    """Of one env of a task."""
    first = task if isinstance(task, str) else task[0]
    known = {option.name for option in registry.task_info(first).options}
    return registry.open_config(first, {k: v for k, v in options.items() if k in known})


def _check_rewards(task: Any, specs: Sequence[_core.Spec]) -> None:
    shapes = [list(spec.shape) for spec in specs if spec.role == "reward"]
    if shapes != [[1]]:
        raise TypeError(
            f"{task!r}: expected one reward for each env, got rewards of shapes {shapes}: PoolEnv has several"
        )
