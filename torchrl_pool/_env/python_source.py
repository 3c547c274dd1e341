"""Envs of Python: what makes them, and where they run."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.data import Bounded, Composite, TensorSpec

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_int
from torchrl_pool._env.errors import EnvFailure
from torchrl_pool._env.reset_arguments import Options, ResetArguments, reset_arguments
from torchrl_pool._env.source import TASK_DEFAULT
from torchrl_pool._env.specs import NestedSizes
from torchrl_pool._plugins.options import unknown_option
from torchrl_pool._processes.changed_modules import with_hint
from torchrl_pool._workers.entries import Entry
from torchrl_pool._workers.gymnasium_make import make_gymnasium
from torchrl_pool._workers.info_channel import Told
from torchrl_pool._workers.worker import LOST, InfoOptions, RequestFailure
from torchrl_pool._workers.worker_set import WorkerSet

_GYMNASIUM = "gymnasium:"
HAS_PROCESSES = sys.platform == "linux"
"""Whether there can be worker processes: they end with their pool, by what only Linux has."""
NATIVE_KEYS = frozenset({"step_count", "exact_reward", "episode_reward", "is_init"})
"""Infos that the executor has of all envs; others are the envs' own."""


def is_python(task: Any) -> bool:
    """Whether this makes envs of Python, rather than being the id of a task."""
    if isinstance(task, str):
        return task.startswith(_GYMNASIUM)
    if isinstance(task, Sequence):
        return any(map(is_python, task))
    return callable(task)


class PythonSource:
    """Envs that functions make, in this process or in worker processes.

    Keyword Args:
        passed_infos, own_names: what fronts without tensordicts need: see
            :class:`~torchrl_pool._workers.worker.InfoOptions`.

    Raises:
        TypeError: an argument that makes no sense for such envs, or a function that cannot be pickled.
        ValueError: a time limit for envs in this process.
        EnvFailure: the first env cannot be made, or has what tensors cannot hold.
    """

    def __init__(
        self,
        task: Any,
        num_envs: int,
        *,
        num_workers: int,
        respawn: bool,
        step_timeout: float | None,
        task_options: Mapping[str, Any],
        info_keys: Sequence[str],
        max_episode_steps: int | None,
        one_hot: bool | None,
        obs_dtype: torch.dtype | None,
        passed_infos: tuple[str, ...] | None = (),
        own_names: bool = False,
    ) -> None:
        num_workers = min(check_int("num_workers", num_workers, minimum=0), num_envs)
        if num_workers and not HAS_PROCESSES:
            raise ValueError(
                f"num_workers: expected 0, got {num_workers}: worker processes need Linux; with 0 the envs "
                "run in this process"
            )
        if step_timeout is not None and num_workers == 0:
            raise ValueError(
                "step_timeout: expected None with num_workers=0: an env in this process cannot be ended; "
                "num_workers=1 or more run the envs in processes that can"
            )
        self._numbers = itertools.count(1)
        own = 0 if max_episode_steps in (TASK_DEFAULT, None) else int(max_episode_steps or 0)
        self.limits = [own] * num_envs
        # A limit that Gymnasium has registered gives way; -1: there is none.
        limit = {} if max_episode_steps == TASK_DEFAULT else {"max_episode_steps": own or -1}
        self.num_threads = 1  # the calling one, which collects what workers have written
        with _options_known(task_options), failures():
            self.workers = WorkerSet(
                _factories(task, num_envs, task_options, limit),
                num_envs,
                num_workers,
                InfoOptions(
                    tuple(key for key in info_keys if key not in NATIVE_KEYS),
                    passed_infos,
                    own_names,
                    own,
                ),
                respawn,
                step_timeout,
            )
        self.num_workers = num_workers
        descriptions = self.workers.descriptions
        configs = {
            id(one): _core.remote_config(one.name, self.workers.entries_of(one))
            for one in {id(one): one for one in descriptions}.values()
        }
        self.configs: list[_core.Config] = [configs[id(one)] for one in descriptions]
        description = descriptions[0]
        self.specs: Mapping[str, TensorSpec] = _exact(description.entries)
        self.nested_sizes: Mapping[str, NestedSizes] = {}
        self.group_map: Mapping[str, list[str]] | None = description.group_map
        self.states: Sequence[Entry] = description.states
        self.state_spec: Composite | None = None
        self.sets_state = description.sets_state
        self.info_keys = [LOST.name] if self.workers.respawns else []
        # TorchRL's envs give their entries the form that they want them in.
        self.is_torchrl = description.specs is not None
        self.one_hot = one_hot is not False and not self.is_torchrl
        if description.specs is not None:
            if obs_dtype is not None:
                raise TypeError(
                    "obs_dtype: expected with envs of Gymnasium, got it with one of TorchRL or PettingZoo, "
                    "whose entries keep their dtypes: wrap it in TransformedEnv(env, DoubleToFloat())"
                )
            vectors = [entry.name for entry in description.entries if entry.one_hot]
            # Fronts without tensordicts have numbers anyhow.
            if vectors and one_hot is False and not own_names:
                raise TypeError(
                    f"categorical_action_encoding: expected False, for {vectors[0]!r} of this env of TorchRL "
                    "is one-hot: give GymEnv categorical_action_encoding=True, or PettingZooWrapper "
                    "categorical_actions=True"
                )
            specs: list[Composite] = pickle.loads(description.specs)
            states = specs.pop()
            self.state_spec = states if self.states else None
            self.specs = dict(_leaves(specs))
            roles = "action", "observation", "reward", "done"
            self.nested_sizes = {role: dict(_sizes_of(spec)) for role, spec in zip(roles, specs, strict=True)}

    def open(self, layout: _core.LayoutOptions, step_timeout: float | None) -> _core.Pool:
        try:
            with failures():
                self.workers.open()
            return _core.Pool(
                configs=self.configs,
                max_episode_steps=self.limits,
                num_threads=self.num_threads,
                thread_affinity=[],
                layout=layout,
                step_timeout=step_timeout,
                workers=self.workers,
            )
        except BaseException:
            with contextlib.suppress(RequestFailure):
                self.workers.close()
            raise

    def close(self) -> None:
        with failures():
            self.workers.close()

    def reset_arguments(
        self,
        seed: int | Sequence[int] | None,
        options: Options,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None,
    ) -> ResetArguments:
        return reset_arguments(len(self.configs), seed, options, list_of_kwargs)

    def revive(self, pool: _core.Pool) -> None:
        if ended := pool.ended_workers():
            with failures(), pool.exclusive_access([]):  # nothing closes the pool meanwhile
                for worker in ended:
                    self.workers.replace(pool, worker)

    def tell(self, pool: _core.Pool, given: ResetArguments, envs: Sequence[int]) -> int:
        options = [given.options[env] if given.options else None for env in envs]
        if given.states is None and all(own is None for own in options):
            return 0
        states, set_state = (None, None) if given.states is None else given.states
        rows = [None] * len(envs) if states is None else list(states.numpy())
        number = next(self._numbers)
        with failures(), pool.exclusive_access([]):
            self.workers.ask_each(
                envs,
                "hear_of_reset",
                lambda share: [number, [(options[i], rows[i]) for i in share], set_state],
            )
        return number

    def ask(
        self, pool: _core.Pool, what: str, envs: list[int], arguments: Callable[[list[int]], Any]
    ) -> list[Any]:
        with failures(), pool.exclusive_access(envs):
            return self.workers.ask_each(envs, what, arguments)

    def render(self, pool: _core.Pool, envs: list[int]) -> list[NDArray[np.uint8]]:
        return self.ask(pool, "render", envs, lambda share: [])

    def take_infos(self) -> Told:
        return self.workers.take_infos()

    def plugin_paths(self) -> list[str]:
        return []

    def placement(self) -> str:
        count = self.num_workers
        where = "this process" if count == 0 else f"{count} worker process{'es' * (count > 1)}"
        advice = self.workers.advice()
        return f"the envs run in {where}" + f"; {advice}" * bool(advice)


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """A worker's failure as the public exception."""
    try:
        yield
    except RequestFailure as failure:
        known = failure.env >= 0
        report = with_hint(failure.report)
        message = f"env {failure.env} failed: {report}" if known else report
        raise EnvFailure(message, [failure.env] * known, [report] * known) from None


@contextlib.contextmanager
def _options_known(options: Mapping[str, Any]) -> Iterator[None]:
    """The failure of an env that does not take one of these as an error of its own."""
    try:
        yield
    except EnvFailure as failure:
        for name in options:
            if f"unexpected keyword argument {name!r}" in str(failure):
                raise unknown_option(name, f"{name}: not an argument of the env", str(failure)) from None
        raise


def _factories(task: Any, num_envs: int, options: Mapping[str, Any], limit: Mapping[str, int]) -> Any:
    """What makes any env, or one callable for each."""
    if isinstance(task, str) or callable(task):
        return _factory(task, options, limit)
    if len(task) != num_envs:
        raise ValueError(f"task: expected one callable or {num_envs} of them, got {len(task)}")
    # Like tasks have one factory, by which they are known to make like envs.
    of_names = {one: _factory(one, options, limit) for one in task if isinstance(one, str)}
    return [of_names[one] if isinstance(one, str) else _factory(one, options, limit) for one in task]


def _factory(task: Any, options: Mapping[str, Any], limit: Mapping[str, int]) -> Callable[[], Any]:
    if isinstance(task, str) and task.startswith(_GYMNASIUM):
        return partial(make_gymnasium, task.removeprefix(_GYMNASIUM), {**options, **limit})
    if not callable(task):
        raise TypeError(f"task: expected callables, or strings {_GYMNASIUM + 'ID'!r}, got {task!r}")
    if options:
        name = next(iter(options))
        instead = f"for an argument of the env pass functools.partial(make_env, {name}=...) as task"
        raise unknown_option(name, f"{name}: not an argument of PoolEnv", instead)
    make: Callable[[], Any] = task
    return make


def _sizes_of(composite: Composite) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The batch size of each nested composite."""
    for key, spec in composite.items(include_nested=True):
        if isinstance(spec, Composite):
            yield (key,) if isinstance(key, str) else key, tuple(spec.shape)


def _exact(entries: Sequence[Entry]) -> dict[str, TensorSpec]:
    """The specs of those whose bounds the executor does not hold."""
    specs: dict[str, TensorSpec] = {}
    for entry in entries:
        if entry.integers is not None:
            dtype: torch.dtype = getattr(torch, entry.dtype)
            low, high = (torch.tensor(bounds, dtype=dtype).reshape(entry.shape) for bounds in entry.integers)
            specs[entry.name] = Bounded(low=low, high=high, shape=entry.shape, dtype=dtype)
    return specs


def _leaves(specs: Sequence[Composite]) -> Iterator[tuple[str, TensorSpec]]:
    for composite in specs:
        for key, spec in composite.items(include_nested=True, leaves_only=True):
            yield key if isinstance(key, str) else "/".join(key), spec
