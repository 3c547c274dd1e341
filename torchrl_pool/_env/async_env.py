"""AsyncEnv: the envs of an executor by their index, in flight or one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import AsyncEnvPool

from torchrl_pool import _core
from torchrl_pool._env.arguments import EnvIndex, env_indices
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.executor_env import ExecutorEnv
from torchrl_pool._env.in_flight import RESET, STEP, STEP_AND_RESET, AsyncRows, receive, send
from torchrl_pool._env.python_source import PythonSource, failures
from torchrl_pool._env.random_actions import hidden_from_class, rand_action, rand_step
from torchrl_pool._env.reset_arguments import Options as ResetOptions
from torchrl_pool._env.specs import Key


@AsyncEnvPool.register  # code that asks for an AsyncEnvPool, as LLMCollector, gets one
class AsyncEnv(ExecutorEnv):
    """The methods of :class:`~torchrl_pool.PoolEnv` that take an ``env_index``.

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

    Raises:
        IndexError, ValueError: an ``env_index`` that does not exist, or names an env twice.
        TypeError: an ``env_index`` of neither ints nor bools.
        RuntimeError: an env that is in flight already or has not been reset; more results wanted than are
            outstanding.
        TimeoutError: fewer than ``min_get`` results are there in time; they wait for the next call.
        EnvFailure: envs have failed; the others' results wait for the next call.

    Examples:
        >>> from torchrl_pool import PoolEnv
        >>> env = PoolEnv("CartPole-v1", num_envs=4)
        >>> env.async_reset_send()
        >>> root = env.async_reset_recv(2)  # whichever are ready first
        >>> env.async_step_send(env.rand_action(root))
    """

    _env_idx_key: str = "env_index"
    _async_rows: AsyncRows | None = None

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

    def _send_alone(self, tensordict: TensorDictBase, indices: Sequence[int]) -> None:
        send(self, STEP, tensordict, indices, is_single=True)

    # ---- step

    def async_step_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """Starts a step of these envs.

        Args:
            tensordict: ``[k]``, with an action in each row; ``"env_index"`` in it names the envs where
                ``env_index`` is not given.
            env_index: the envs of its rows, see above; ``None``: all envs, or those that the tensordict
                names.
        """
        send(self, STEP, tensordict, env_index)

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
        """
        return receive(self, STEP, min_get, env_index, max_get, timeout)[0]

    # ---- step_and_maybe_reset

    def async_step_and_maybe_reset_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """Starts a step of these envs, with an auto-reset where it ends an episode.

        Args:
            tensordict: ``[k]``, with an action in each row; ``"env_index"`` in it names the envs where
                ``env_index`` is not given.
            env_index: the envs of its rows, see above; ``None``: all envs, or those that the tensordict
                names.
        """
        send(self, STEP_AND_RESET, tensordict, env_index)

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
        data, next_root = receive(self, STEP_AND_RESET, min_get, env_index, max_get, timeout)
        assert next_root is not None
        return data, next_root

    # ---- reset

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
        given = self._source.reset_arguments(seed, options, None)
        send(self, RESET, tensordict, env_index, given=given)

    def async_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``reset`` returns for those envs that are ready: ``[k]``. As :meth:`async_step_recv`."""
        return receive(self, RESET, min_get, env_index, max_get, timeout)[0]

    # ---- random actions

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

    # ---- the simulators as they are between two calls

    def start(self) -> None:
        """Creates the simulators now instead of at the first reset."""
        self._start()

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
        indices = self._indices(env_index)
        envs = sorted(set(indices))
        try:
            states = dict(zip(envs, self._running().save(envs), strict=True))
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        return [states[i] for i in indices]

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
        pool = self._start()
        indices = self._indices(env_index)
        states = [state] * len(indices) if isinstance(state, bytes) else list(state)
        if len(states) != len(indices):
            raise ValueError(f"state: expected {len(indices)} states, got {len(states)}")
        for one in states:
            if not isinstance(one, bytes):
                raise TypeError(f"state: expected bytes, got {type(one).__name__}")
        self._source.revive(pool)
        given = dict(zip(indices, states, strict=True))
        envs = sorted(given)
        try:
            pool.load(envs, [given[i] for i in envs])
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state dicts of TorchRL envs in workers, such as the statistics of their transforms.

        As that of ``SerialEnv``: ``"worker0"`` holds that of env 0, and so on. Simulators are not in it: see
        :meth:`get_state`.
        """
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        if self._has_state_dicts and kwargs.get("destination") is None:
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
        if not self._has_state_dicts:
            return super().load_state_dict(state_dict, *args, **kwargs)
        is_of_one = "worker0" not in state_dict
        own = [state_dict if is_of_one else state_dict[f"worker{i}"] for i in range(self.num_envs)]
        for i, one in enumerate(own):
            self.call("load_state_dict", one, *args, env_index=i, **kwargs)
        return None

    @property
    def _has_state_dicts(self) -> bool:
        return isinstance(self._source, PythonSource) and self._source.is_torchrl

    def render(self, env_index: EnvIndex = None) -> torch.Tensor:
        """Pictures of envs as they are now: uint8 ``[k, H, W, 3]``. No ``render_mode`` is needed.

        Args:
            env_index: the envs, by number or by a mask of bools; ``None``: all.

        Raises:
            NotImplementedError: the task cannot be rendered.
            RuntimeError: an env has not been reset.
            ValueError: the envs' pictures differ in size.
        """
        pool = self._running()
        indices = self._indices(env_index)
        if isinstance(self._source, PythonSource):
            return _stacked(self._ask_each("render", indices, lambda share: []))
        sizes = {pool.render_size(i) for i in indices}
        if len(sizes) != 1:
            raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
        envs = sorted(set(indices))
        frames = torch.empty((len(envs), *sizes.pop(), 3), dtype=torch.uint8, device="cpu")
        try:
            pool.render(envs, [frame.data_ptr() for frame in frames], frames)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        return frames if envs == indices else frames[[envs.index(i) for i in indices]]

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
        return self._ask_each("call", self._indices(env_index), lambda share: [name, args, kwargs])

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
        if not isinstance(self._source, PythonSource):
            raise TypeError(
                "call, get_attr, has_attr, set_attr: expected a pool of Python envs, got the native task "
                f"{self.task!r}: its options are chosen at construction"
            )
        pool = self._running() if self._was_closed else self._start()
        with failures(), pool.exclusive_access(indices):
            return self._source.workers.ask_each(indices, what, arguments)

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)


def _stacked(pictures: list[Any]) -> torch.Tensor:
    if len(sizes := {picture.shape for picture in pictures}) != 1:
        raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
    return torch.stack([torch.from_numpy(picture) for picture in pictures])
