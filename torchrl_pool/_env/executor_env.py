"""ExecutorEnv: an env whose simulators run in an executor, which reads and writes tensors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import wraps
from typing import Any, Protocol, Self, TypeVar, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl._utils import seed_generator
from torchrl.data import Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_device, check_int, seed_words
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.python_source import is_python
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.source import TASK_DEFAULT, Source
from torchrl_pool._env.specs import (
    Key,
    NestedSizes,
    action_shape,
    actions_of,
    full_action_spec,
    full_output_spec,
    key_of,
    nested_sizes_of,
    torch_dtype,
)
from torchrl_pool._env.states import StateEntries
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.stepper import Columns, Stepper
from torchrl_pool._env.tensors import PlainEntries, as_choices, as_it_lies, check_memory, unsafe_tensordict
from torchrl_pool._env.transfers import down, up
from torchrl_pool._plugins.loading import register

_RESET = _core.Op.reset

Call = TypeVar("Call", bound=Callable[..., Any])


def not_traced(call: Call) -> Call:
    """A call that breaks a graph of torch.compile, which cannot look into the executor."""
    untraced = torch.compiler.disable(  # type: ignore[no-untyped-call]
        call, reason="the executor steps the envs of this pool"
    )

    @wraps(call)
    def either(*args: Any, **kwargs: Any) -> Any:
        # Asked first, since the way through torch's wrapper takes as long as a step of a few small envs.
        return untraced(*args, **kwargs) if torch.compiler.is_compiling() else call(*args, **kwargs)

    return cast("Call", either)


class Holder(Protocol):
    """What holds tensors that a pool's calls have left."""

    def let_go(self) -> None:
        """Forgets them: the pool is closed."""


class ExecutorEnv(EnvBase):
    """Specs, tensors and simulators of :class:`~torchrl_pool.PoolEnv`: all but the calls that step them."""

    num_envs: int
    num_threads: int  # of this process, the calling one included
    num_workers: int  # worker processes
    _source: Source
    _step_timeout: float | None
    _pin_memory_wish: bool | None
    # What the executor reads and writes.
    _configs: Sequence[_core.Config]
    _layout: _core.LayoutOptions
    _outputs: Sequence[_core.Spec]
    _action_layout: Sequence[tuple[Key, torch.dtype, torch.Size]]
    _nested: bool  # whether an output or action lies in a tensordict of its own
    _plain_actions: PlainEntries
    _states: StateEntries | None  # what envs read besides actions
    _nested_sizes: NestedSizes
    _next_root: NextRoot
    _stepper: Stepper
    # The running simulators.
    _pool: _core.Pool | None = None
    _was_closed = False
    _opening: threading.Lock
    _entropy: list[list[int] | None]  # of the last seeds, for the next start
    _async_rows: Any = None  # where async calls write: of this pool, not of the next
    min_get: int = 1  # how many results a receive waits for by default
    _holders: weakref.WeakSet[Holder]

    # ---- specs

    def _describe(self, layout: _core.LayoutOptions) -> None:
        """Specs, and what follows from them."""
        source, num_envs = self._source, self.num_envs
        self.num_threads, self.num_workers = source.num_threads, source.num_workers
        self._configs = source.configs
        self._layout = layout
        distinct = list(dict.fromkeys(self._configs))
        outputs = {c: c.outputs(layout) for c in distinct}
        self._outputs = outputs[self._configs[0]]
        self._action_layout = [
            (key_of(spec), torch_dtype(spec), torch.Size((num_envs, *action_shape(spec, source.one_hot))))
            for spec in actions_of(self._configs[0])
        ]
        self._states = StateEntries(source.states, num_envs) if source.states else None
        self._supports_set_state = source.sets_state
        self._plain_actions = PlainEntries(self._action_layout)
        self._make_specs(outputs)
        keys = [key_of(spec) for spec in self._outputs]
        actions = [key for key, _, _ in self._action_layout]
        self._nested_sizes = nested_sizes_of(source.nested_sizes, source.specs)
        if source.group_map is not None:
            self.group_map = source.group_map
        self._nested = any(isinstance(key, tuple) for key in (*keys, *actions))
        in_root = [key_of(spec) for spec in self._outputs if spec.role != "reward"]
        self._next_root = NextRoot(keys, in_root, actions, self.done_keys, self._nested_sizes)
        self._use_device()

    def _make_specs(self, outputs: Mapping[_core.Config, Sequence[_core.Spec]]) -> None:
        self.action_spec = full_action_spec(
            self._configs, self._source.one_hot, self.device, self._source.specs, self._source.nested_sizes
        )
        pictures = {
            tuple(spec.shape) for specs in outputs.values() for spec in specs if spec.name == "pixels"
        }
        if len(pictures) > 1:
            raise ValueError(f"from_pixels: the envs' pictures differ in size: {sorted(pictures)}")
        observation, reward, done = full_output_spec(
            [outputs[c] for c in self._configs], self.device, self._source.specs, self._source.nested_sizes
        )
        self.observation_spec = observation
        self.reward_spec = reward
        self.done_spec = done
        if (states := self._source.state_spec) is not None:
            states = states.expand(self.num_envs)
            self.state_spec = states if self.device is None else states.to(self.device)

    def to(self, device: torch.device | str | int) -> Self:
        """Moves outputs to another device: as :meth:`torchrl.envs.EnvBase.to`."""
        check_device(device)
        env: Self = super().to(device)
        self._use_device()
        return env

    # ---- tensors

    def _use_device(self) -> None:
        """Everything that follows from where the outputs go."""
        cuda = self.device is not None and self.device.type == "cuda"
        wish = self._pin_memory_wish
        self._pin_memory = cuda if wish is None else wish
        if self._pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True needs CUDA, which torch does not find here")
        self._on_cpu = self.device is None or self.device.type == "cpu"
        outputs = self._outputs
        columns = Columns(
            {key_of(s): (torch.Size(s.shape), torch_dtype(s)) for s in outputs},
            range(len(outputs)),
            root_keys=[key_of(s) for s in outputs if s.role != "reward"],
            flags=[key_of(s) for s in outputs if s.role == "done"],
            out=[(0, 0)] * len(outputs),
            root=[(0, 0)] * len(outputs),
        )
        self._stepper = Stepper(self, columns, self._plain_actions, self._next_root, nested=self._nested)
        self.step_keys, self.root_keys = list(columns.rows), self._stepper.root_keys

    def _check_actions(
        self, tensordict: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """What a step reads, as contiguous CPU tensors, and their addresses. Values are checked in C++."""
        found = self._plain_actions.find(tensordict, num_rows)
        if found is None:
            found = self._check_closely(tensordict, num_rows)
        if self._states is not None:
            states = self._states.packed(tensordict, num_rows)
            found[0].append(states)
            found[1].append(states.data_ptr())
        return found

    def _check_closely(
        self, tensordict: TensorDictBase, num_rows: int | None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The same for actions that are not just as the executor reads them."""
        actions, addresses = [], []
        for key, dtype, shape in self._action_layout:
            action = tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None)
            if not isinstance(action, torch.Tensor):
                if action is None:
                    raise KeyError(
                        f"expected an entry {key!r} in the tensordict, got {list(tensordict.keys())}"
                    )
                raise TypeError(f"{key!r}: expected a torch.Tensor, got {type(action).__name__}")
            if num_rows is not None:
                shape = torch.Size((num_rows, *shape[1:]))
            if action.shape != shape:
                kind, instead = _encoding(self.full_action_spec[key])
                raise ValueError(
                    f"{key!r}: expected {kind}shape {list(shape)}, got {list(action.shape)}{instead}"
                )
            if action.layout is not torch.strided:
                raise TypeError(f"{key!r}: expected a dense tensor, got one of layout {action.layout}")
            if action.dtype is not dtype:
                action = as_choices(key, action, dtype)
            action = as_it_lies(action)
            if action.is_cpu:
                check_memory(key, action)
                addresses.append(action.data_ptr())
            elif self._on_cpu:
                raise ValueError(f"{key!r}: expected a tensor on cpu, got one on {action.device}")
            actions.append(action)
        if len(addresses) < len(actions):
            actions = down(actions)
            addresses = [action.data_ptr() for action in actions]
        return actions, addresses

    def _on_device(self, values: dict[Key, torch.Tensor]) -> dict[Key, torch.Tensor]:
        """What the executor has written, where users see it."""
        return values if self._on_cpu else up(values, self.device)

    def _unsafe(
        self, values: dict[Key, Any], names: Sequence[str | None] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """A tensordict of entries that are known to fit: a tenth of the checked constructor's cost."""
        batch_size = self._batch_size if num_rows is None else torch.Size([num_rows])
        return unsafe_tensordict(
            values, batch_size, self._device, names, nested=self._nested, nested_sizes=self._nested_sizes
        )

    # ---- simulators

    def _start(self) -> _core.Pool:
        """Creates the simulators and threads, once, whichever thread asks first."""
        with self._opening:
            if self._pool is None:
                self._pool = self._open()
                self.is_closed = self._was_closed = False
            return self._pool

    def _open(self) -> _core.Pool:
        try:
            pool = self._source.open(self._layout, self._step_timeout)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        try:
            self._seed_pool(pool, self._entropy)
        except BaseException:  # the next start seeds all of them again
            pool.close()
            with suppress(EnvFailure):
                self._source.close()
            raise
        return pool

    def _running(self) -> _core.Pool:
        if self._pool is None:
            raise RuntimeError(f"{self!r} has no running simulators: call reset() before the first step")
        return self._pool

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
        if raise_if_closed and self._was_closed:
            raise RuntimeError(f"close(raise_if_closed=True): {self!r} is closed already")
        pool, self._pool = self._pool, None
        self._async_rows = None
        self.is_closed = self._was_closed = True
        with ExitStack() as closing:  # each of them, whatever the one before raises
            closing.callback(self._source.close)
            if pool is not None:
                closing.callback(pool.close)
            for holder in (self._stepper, *self._holders):
                holder.let_go()

    def _reset_envs(
        self,
        calls: _core.Calls,
        out: _core.Given | None,
        mask: torch.Tensor | None,
        given: ResetArguments,
    ) -> Any:
        """Has the executor reset all envs, or those of the mask. Returns what it has written, by key."""
        pool = self._start()
        envs = range(self.num_envs) if mask is None else mask.reshape(-1).nonzero().flatten().tolist()
        arguments = self._begin_reset(pool, envs, given)
        rows = None if mask is None else (mask, mask.data_ptr())
        results = calls.run(pool, _RESET, None, out, mask=rows, given=arguments)
        assert results is not None
        return results[0]

    def _begin_reset(
        self, pool: _core.Pool, envs: Sequence[int], given: ResetArguments
    ) -> _core.ResetArguments:
        """What comes before every reset, however it is asked for: workers are there, and know their part."""
        self._source.revive(pool)
        return given.for_executor(self._source.tell(given, envs))

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
        self._seed_envs(dict(enumerate(seeds)))
        return seed

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def _seed_envs(self, seeds: Mapping[int, int]) -> None:
        """Gives these envs their seeds, now if they are running, and whenever they start."""
        entropy: list[list[int] | None] = [None] * self.num_envs
        for env_index, seed in seeds.items():
            entropy[env_index] = seed_words(seed)
        with self._opening:
            pool = self._pool
            if pool is not None:
                self._seed_pool(pool, entropy)
            self._entropy = [new or old for new, old in zip(entropy, self._entropy, strict=True)]

    def _seed_pool(self, pool: _core.Pool, entropy: Sequence[list[int] | None]) -> None:
        """Seeds and resets the envs that have entropy here."""
        seeded = [env for env, words in enumerate(entropy) if words is not None]
        if not seeded:
            return
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device="cpu")
        mask[seeded] = True
        given = self._begin_reset(pool, seeded, ResetArguments([words or [] for words in entropy]))
        try:
            nowhere = None, [0] * len(self._outputs)
            rows = mask, mask.data_ptr()
            self._stepper.calls.run(pool, _RESET, None, nowhere, mask=rows, given=given)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None

    # ---- pickling

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pool is not None:
            raise TypeError(
                f"{self!r} cannot be pickled or copied while it runs: its simulators live in this process. "
                "Do so before the first reset or after close(), or take their states with get_state()"
            )
        paths = self._source.plugin_paths()
        arguments = {k: v for k, v in self._arguments.items() if v is not TASK_DEFAULT}
        arguments.update(device=self.device, run_type_checks=self.run_type_checks)
        return _rebuild, (type(self), paths, arguments, self._entropy, self._is_spec_locked)

    def __repr__(self) -> str:
        task: Any = self.task
        if not isinstance(task, str) and isinstance(task, Sequence):
            # Callables need not have hashes.
            task = list({id(one): one for one in task}.values()) if is_python(task) else sorted(set(task))
        return f"{type(self).__name__}({task!r}, num_envs={self.num_envs}, device={self.device})"


def _encoding(spec: TensorSpec) -> tuple[str, str]:
    """How discrete actions are encoded, for a message; and how to have the other encoding."""
    if isinstance(spec, (OneHot, MultiOneHot)):
        return "one-hot vectors of ", "; categorical_action_encoding=True takes the numbers of the choices"
    if isinstance(spec, (Categorical, MultiCategorical)):
        return "numbers of the choices, of ", "; categorical_action_encoding=False takes one-hot vectors"
    return "", ""


def _rebuild(
    cls: type[ExecutorEnv],
    plugin_paths: list[str],
    arguments: dict[str, Any],
    entropy: list[list[int] | None],
    spec_locked: bool,
) -> ExecutorEnv:
    for path in plugin_paths:
        register(path)
    env = cls(**arguments, spec_locked=spec_locked)
    env._entropy = entropy
    return env
