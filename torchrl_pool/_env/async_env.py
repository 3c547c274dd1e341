"""Envs in flight: PoolEnv's methods under the names and with the meaning of TorchRL's AsyncEnvPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import AsyncEnvPool

from torchrl_pool import _core
from torchrl_pool._env.arguments import EnvIndex, env_indices, names_one_env
from torchrl_pool._env.async_rows import rows_sent
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.lifecycle import LifeMethods
from torchrl_pool._env.random_actions import RandomActions, indices_of, rows_of
from torchrl_pool._env.specs import Key
from torchrl_pool._fork_aware_lock import ForkAwareLock

_STEP, _RESET, _STEP_AND_RESET = _core.Op.step, _core.Op.reset, _core.Op.step_and_reset
_NOT_CARRIED = frozenset(("next", "_reset", "_step", "env_index"))


class _Flight:
    """What a pool's async calls keep between a send and its receive."""

    def __init__(self, env: AsyncMethods, pool: _core.Pool) -> None:
        # Rows for all envs, written by the pool's threads and copied out by the receiver.
        self.out, out = env._allocator.for_step()
        self.root, root = env._allocator.for_root()
        pool.prepare_async(out, root, (self.out, self.root))
        # Per env: the entries that were sent, and the env's row in them.
        self.sent: list[tuple[dict[Key, Any], int] | None] = [None] * env.num_envs
        # So that a receiver finds what was sent, however fast the result is there.
        self.lock = ForkAwareLock()


@AsyncEnvPool.register  # code that asks for an AsyncEnvPool, as LLMCollector, gets one
class AsyncMethods(RandomActions, LifeMethods):
    """The ``async_*`` methods of :class:`~torchrl_pool.PoolEnv`.

    They follow :class:`torchrl.envs.AsyncEnvPool` of torchrl 0.14: envs are sent, in any grouping and from
    any thread; whoever receives gets those that are ready first, sorted by their index. An env may be sent
    again as soon as it was received. A call that is refused changes nothing. While envs are in flight, calls
    for all envs (``step``, ``reset``, ``rollout``) are refused.

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

    min_get: int = 1
    _env_idx_key: str = "env_index"
    _flight: _Flight | None = None

    @property
    def env_batch_sizes(self) -> list[torch.Size]:
        """Batch size of each env by itself."""
        return [torch.Size([])] * self.num_envs

    @property
    def exchange_keys(self) -> tuple[Key, ...]:
        """Entries that pass through shared memory between processes: none, since there are no processes."""
        return ()

    def stats(self, *, reset: bool = False) -> dict[str, float]:
        """Statistics of the exchange between processes: none."""
        return {}

    def _send_alone(self, tensordict: TensorDictBase, indices: Sequence[int]) -> None:
        _send(self, _STEP, tensordict, indices, alone=True)

    # ---- step

    def async_step_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """Starts a step of these envs, with the actions of ``tensordict``, of shape ``[k]``."""
        _send(self, _STEP, tensordict, env_index)

    def async_step_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``step`` returns, for at least ``min_get`` and at most ``max_get`` envs: ``[k]``.

        Without ``timeout`` (seconds) it returns as soon as ``min_get`` are there; with one, it goes on
        waiting for more until then.
        """
        return _receive(self, _STEP, min_get, env_index, max_get, timeout)[0]

    # ---- step_and_maybe_reset

    def async_step_and_maybe_reset_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """Starts a step of these envs, and a new episode where it ends one."""
        _send(self, _STEP_AND_RESET, tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """What ``step_and_maybe_reset`` returns, for some of the envs: two tensordicts ``[k]``.

        As :meth:`async_step_recv`. The second one, with an action in it, is what may be sent next.
        """
        data, next_root = _receive(self, _STEP_AND_RESET, min_get, env_index, max_get, timeout)
        assert next_root is not None
        return data, next_root

    # ---- reset

    def async_reset_send(self, tensordict: TensorDictBase | None = None, env_index: EnvIndex = None) -> None:
        """Starts a new episode in these envs; without both arguments, in all."""
        if tensordict is None and env_index is None:
            env_index = range(self.num_envs)
        _send(self, _RESET, tensordict, env_index)

    def async_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``reset`` returns, for some of the envs: ``[k]``. As :meth:`async_step_recv`."""
        return _receive(self, _RESET, min_get, env_index, max_get, timeout)[0]


def _send(
    env: AsyncMethods,
    op: _core.Op,
    tensordict: TensorDictBase | None,
    env_index: EnvIndex,
    alone: bool | None = None,
) -> None:
    pool = env._start() if op is _RESET else env._running()
    if alone is None:
        alone = names_one_env(env_index)
    if tensordict is None:
        indices, entries = indices_of(env, None, env_index), {}
    else:
        tensordict, indices = rows_of(env, tensordict, env_index)
        if tensordict.device != env.device:
            tensordict = tensordict.to(env.device)
        entries = _sent_entries(env, op, tensordict)
    # Kept until `send` has copied what lies at the addresses.
    actions, addresses = ([], []) if op is _RESET else _actions(env, tensordict, len(indices))
    flight = env._flight
    if flight is None:
        with env._opening:  # the first sends may come from several threads at once
            flight = env._flight = env._flight or _Flight(env, pool)
    with flight.lock:
        pool.send(op, indices, addresses, alone)
        for row, index in enumerate(indices):
            flight.sent[index] = entries, row
    del actions


def _sent_entries(env: AsyncMethods, op: _core.Op, tensordict: TensorDictBase) -> dict[Key, Any]:
    """What travels with the envs: nothing that the pool writes."""
    items = tensordict._tensordict if type(tensordict) is TensorDict else tensordict
    entries = {key: value for key, value in items.items() if key not in _NOT_CARRIED}
    preset = items.get("next", None)
    if preset is not None:
        preset = preset if op is _RESET else preset.exclude(*env._allocator.step_templates)
        if len(preset.keys()) > 0:
            entries["next"] = preset
    return entries


def _receive(
    env: AsyncMethods,
    op: _core.Op,
    min_get: int | None,
    env_index: int | None,
    max_get: int | None,
    timeout: float | None,
) -> tuple[TensorDictBase, TensorDictBase | None]:
    least = env.min_get if min_get is None else min_get
    if least < 1:
        raise ValueError(f"min_get: expected at least 1, got {least}")
    if max_get is not None and max_get < least:
        raise ValueError(f"max_get: expected at least min_get ({least}), got {max_get}")
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout: expected seconds, at least 0, got {timeout}")
    pool = env._running()
    results = _Results(env, op)
    try:
        if env_index is None:
            in_time = pool.receive(op, least, max_get or 0, timeout, results.allocate)
        else:
            indices = env_indices(env_index, env.num_envs)
            if len(indices) != 1:
                raise ValueError(f"env_index: expected one env, got {indices}")
            in_time = pool.receive_alone(op, indices[0], timeout, results.allocate)
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    if not in_time:
        raise TimeoutError(
            f"expected at least {least} result{'s' * (least > 1)} within {timeout} s, got fewer; those "
            "that are ready stay for the next call"
        )
    number = env._on_device({"env_index": results.number})["env_index"]
    data, next_root = _assemble(env, op, rows_sent(results.sent), results.values, results.first, number)
    if env_index is not None:
        return data[0], None if next_root is None else next_root[0]
    return data, next_root


class _Results:
    """Memory for what is received, made when it is known for how many envs."""

    def __init__(self, env: AsyncMethods, op: _core.Op) -> None:
        self._env, self._op = env, op
        self.envs: list[int] = []
        self.values: dict[Key, torch.Tensor] = {}
        self.first: dict[Key, torch.Tensor] | None = None  # the next root, where an episode has begun
        self.number: torch.Tensor
        self.sent: list[tuple[dict[Key, Any], int] | None] = []

    def allocate(self, envs: list[int], num_resets: int) -> tuple[list[int], list[int], int]:
        """Addresses for the rows of these envs: an error here, an interrupt too, loses no result.

        After this the envs are free, and another thread may send them with other entries.
        """
        count = len(envs)
        allocator, flight = self._env._allocator, self._env._flight
        if flight is None:  # another thread is closing the pool, which forgets what was sent first
            raise RuntimeError("this pool is closed")
        self.envs = envs
        with flight.lock:
            self.sent = [flight.sent[index] for index in envs]
        self.values, addresses = allocator.for_rows(count, rewards=self._op is not _RESET)
        first_addresses: list[int] = []
        if num_resets:
            self.first, first_addresses = allocator.for_rows(count, rewards=False)
        pin_memory = self._env._pin_memory
        self.number = torch.empty(count, dtype=torch.int64, device="cpu", pin_memory=pin_memory)
        return addresses, first_addresses, self.number.data_ptr()


def _assemble(
    env: AsyncMethods,
    op: _core.Op,
    root: dict[Key, Any],
    values: dict[Key, torch.Tensor],
    first: dict[Key, torch.Tensor] | None,
    number: Any,
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """The tensordicts that the env's synchronous twin of the operation returns, for these envs.

    ``first`` holds the next root's entries where some of the envs have begun an episode.
    """
    count = values["done"].shape[0]
    on_device = env._on_device(values)
    if op is _RESET:
        return env._unsafe({**root, **on_device, "env_index": number}, num_rows=count), None
    next_td = env._unsafe(on_device, num_rows=count)
    if "next" in root:
        next_td.update(root.pop("next"))
    data = env._unsafe({**root, "env_index": number, "next": next_td}, num_rows=count)
    if op is _STEP:
        return data, None
    if first is not None:
        on_device = env._on_device(first)
    following = env._next_root.following(root, on_device)
    following["env_index"] = number
    next_root = env._unsafe(following, num_rows=count)
    if env._post_step_mdp_hooks is not None:
        data, next_root = env._post_step_mdp_hooks(data, next_root)
    return data, next_root


def _actions(
    env: AsyncMethods, tensordict: TensorDictBase | None, count: int
) -> tuple[list[torch.Tensor], list[int]]:
    if tensordict is None:
        raise TypeError("tensordict: expected the actions of a step, got None")
    return env._check_actions(tensordict, count)
