"""Where a pool's envs come from: a plugin's tasks, or Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torchrl.data import Composite, TensorSpec

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_affinity, check_int, open_configs, task_per_env
from torchrl_pool._env.reset_arguments import Options, ResetArguments, open_options, reset_arguments
from torchrl_pool._env.specs import NestedSizes
from torchrl_pool._plugins import registry
from torchrl_pool._plugins.groups import agents_of, groups_of
from torchrl_pool._plugins.loading import is_builtin
from torchrl_pool._workers.entries import Entry
from torchrl_pool._workers.info_channel import Told


class TaskDefault:
    """Stands for an argument that nobody has given, where ``None`` means something else."""

    def __repr__(self) -> str:
        return "<the task's>"


TASK_DEFAULT: Any = TaskDefault()


class Source(Protocol):
    """What a :class:`~torchrl_pool.PoolEnv` has to know of its envs, and how an executor gets them.

    Attributes:
        configs: of each env.
        one_hot: whether discrete entries are one-hot vectors.
        specs: those of TorchRL for some entries of one env, which stand as they are given.
        nested_sizes: the batch sizes of nested specs of one env, by what they are for.
        group_map: which agents are in which of them, where there are groups of agents.
        num_threads: threads of this process that the executor works in, the calling one included.
        num_workers: worker processes that step envs.
        info_keys: which infos are written besides those that were asked for.
        limits: of each env, the steps after which the pool truncates an episode; 0: it does not.
        states: what steps read besides actions, of one env.
        state_spec: TorchRL's spec of these.
        sets_state: whether a reset can begin from them.
        is_torchrl: whether these are envs of TorchRL, or of what TorchRL wraps.
    """

    configs: list[_core.Config]
    one_hot: bool
    specs: Mapping[str, TensorSpec]
    nested_sizes: Mapping[str, NestedSizes]
    group_map: Mapping[str, list[str]] | None
    num_threads: int
    num_workers: int
    info_keys: list[str]
    limits: list[int]
    states: Sequence[Entry]
    state_spec: Composite | None
    sets_state: bool
    is_torchrl: bool

    def open(self, layout: _core.LayoutOptions, step_timeout: float | None) -> _core.Pool:
        """An executor with all envs made."""

    def close(self) -> None:
        """Lets go of what the last executor had, which is closed."""

    def reset_arguments(
        self,
        seed: int | Sequence[int] | None,
        options: Options,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None,
    ) -> ResetArguments:
        """What :meth:`PoolEnv.reset` was given, checked."""

    def revive(self, pool: _core.Pool) -> None:
        """Starts worker processes anew that have ended."""

    def tell(self, pool: _core.Pool, given: ResetArguments, envs: Sequence[int]) -> int:
        """Tells workers what these envs' next reset is given. Returns the number that the reset has to name.

        Another reset, or none, begins without it. 0: there is nothing to tell.
        """

    def ask(
        self, pool: _core.Pool, what: str, envs: list[int], arguments: Callable[[list[int]], Any]
    ) -> list[Any]:
        """Has Python envs answer a worker's request, in the order of the numbers.

        Raises:
            TypeError: these are none.
        """

    def render(self, pool: _core.Pool, envs: list[int]) -> list[NDArray[np.uint8]]:
        """Pictures of envs whose numbers ascend."""

    def take_infos(self) -> Told:
        """What Python envs have given since the last time."""

    def placement(self) -> str:
        """Where Python envs run, in words, and where they would be faster; empty: these are none."""

    def plugin_paths(self) -> list[str]:
        """The libraries that another process must load first."""


class PluginSource:
    """Envs of tasks, in the threads of this process."""

    specs: Mapping[str, TensorSpec] = {}
    num_workers = 0
    states: Sequence[Entry] = ()
    state_spec: Composite | None = None
    sets_state = is_torchrl = False

    def __init__(
        self,
        task: Any,
        num_envs: int,
        *,
        num_threads: int | None,
        thread_affinity: Sequence[int] | None,
        env_options: Sequence[Mapping[str, Any]] | None,
        task_options: Mapping[str, Any],
        max_episode_steps: int | None,
        one_hot: bool | None,
    ) -> None:
        if num_threads is not None:
            num_threads = check_int("num_threads", num_threads, minimum=1)
        self.num_threads = min(num_threads or _core.available_cpus(), num_envs)
        self.info_keys: list[str] = []
        self._tasks = task_per_env(task, num_envs)
        self._thread_affinity = check_affinity(thread_affinity)
        self.configs = open_configs(self._tasks, env_options, task_options)
        groups = groups_of(self.configs[0])
        self.group_map: Mapping[str, list[str]] | None = {
            group: agents_of(group, count) for group, count in groups.items()
        } or None
        # As PettingZooWrapper has it, and GymEnv.
        self.one_hot = not groups if one_hot is None else one_hot
        sizes: NestedSizes = {(group,): (count,) for group, count in groups.items()}
        self.nested_sizes: Mapping[str, NestedSizes] = dict.fromkeys(
            ("action", "observation", "reward", "done"), sizes
        )
        limits = {
            t: registry.task_info(t).max_episode_steps
            if max_episode_steps is TASK_DEFAULT
            else max_episode_steps
            for t in dict.fromkeys(self._tasks)
        }
        self.limits = [limits[t] or 0 for t in self._tasks]

    def open(self, layout: _core.LayoutOptions, step_timeout: float | None) -> _core.Pool:
        return _core.Pool(
            configs=self.configs,
            max_episode_steps=self.limits,
            num_threads=self.num_threads,
            thread_affinity=self._thread_affinity,
            layout=layout,
            step_timeout=step_timeout,
        )

    def close(self) -> None:
        pass

    def reset_arguments(
        self,
        seed: int | Sequence[int] | None,
        options: Options,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None,
    ) -> ResetArguments:
        given = reset_arguments(len(self.configs), seed, options, list_of_kwargs)
        given.executor_options = open_options(self._tasks, self.configs, given.options)
        return given

    def revive(self, pool: _core.Pool) -> None:
        pass

    def tell(self, pool: _core.Pool, given: ResetArguments, envs: Sequence[int]) -> int:
        return 0

    def ask(
        self, pool: _core.Pool, what: str, envs: list[int], arguments: Callable[[list[int]], Any]
    ) -> list[Any]:
        raise TypeError(
            "call, get_attr, has_attr, set_attr: expected a pool of Python envs, got the native task "
            f"{self._tasks[0]!r}: its options are chosen at construction"
        )

    def render(self, pool: _core.Pool, envs: list[int]) -> list[NDArray[np.uint8]]:
        pictures = [np.empty((*pool.render_size(env), 3), np.uint8) for env in envs]
        pool.render(envs, [picture.ctypes.data for picture in pictures], pictures)
        return pictures

    def take_infos(self) -> Told:
        return []

    def placement(self) -> str:
        return ""

    def plugin_paths(self) -> list[str]:
        used = {registry.find_task(task)[0] for task in self._tasks}
        return [plugin.path for plugin in used if not is_builtin(plugin)]
