"""Envs in flight: PoolEnv's methods under the names and with the meaning of TorchRL's AsyncEnvPool."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.tensorclass import NonTensorData, NonTensorStack

from torchrl_pool import _core
from torchrl_pool.errors import env_failure
from torchrl_pool.specs import Key

if TYPE_CHECKING:
    from torchrl_pool.env import PoolEnv

EnvIndex: TypeAlias = "int | Sequence[int] | torch.Tensor | None"

_STEP, _RESET, _STEP_AND_RESET = _core.Op.step, _core.Op.reset, _core.Op.step_and_reset
_NOT_CARRIED = frozenset(("next", "_reset", "_step", "env_index"))


class _Flight:
    """What a pool's async calls keep between a send and its receive."""

    def __init__(self, env: PoolEnv, pool: _core.Pool) -> None:
        # Rows for all envs, written by the pool's threads and copied out by the receiver.
        self.out, out = env._allocator.for_step()
        self.root, root = env._allocator.for_root()
        pool.prepare_async(out, root, (self.out, self.root))
        # Per env: the entries that were sent, and the env's row in them.
        self.sent: list[tuple[dict[Key, Any], int] | None] = [None] * env.num_envs
        # So that a receiver finds what was sent, however fast the result is there.
        self.lock = threading.Lock()


class AsyncMethods:
    """The ``async_*`` methods of :class:`~torchrl_pool.PoolEnv`.

    They follow :class:`torchrl.envs.AsyncEnvPool` of torchrl 0.14: envs are sent, in any grouping and from
    any thread; whoever receives gets those that are ready first, sorted by their index. An env may be sent
    again as soon as it was received. A call that is refused changes nothing. While envs are in flight, calls
    for all envs (``step``, ``reset``, ``rollout``) are refused.

    ``env_index`` names the envs of the rows that are sent: an int, a sequence or an int64 tensor; ``None``:
    the entry ``"env_index"`` of the tensordict. An env that is sent by an int is received by that int alone,
    without a batch dimension. What is received holds ``"env_index"`` as an int64 tensor ``[k]``.

    The tensors that were sent are read again when the result is received: do not write into them before.

    Raises:
        IndexError, ValueError: an ``env_index`` that does not exist, or names an env twice.
        RuntimeError: an env that is in flight already or has not been reset; more results wanted than are
            outstanding.
        TimeoutError: fewer than ``min_get`` results are there in time; they wait for the next call.
        EnvFailure: envs have failed; the others' results wait for the next call.
    """

    min_get: int = 1
    _env_idx_key: str = "env_index"
    _flight: _Flight | None = None

    @property
    def env_batch_sizes(self: PoolEnv) -> list[torch.Size]:  # type: ignore[misc]
        """Batch size of each env by itself."""
        return [torch.Size([])] * self.num_envs

    @property
    def exchange_keys(self) -> tuple[Key, ...]:
        """Entries that pass through shared memory between processes: none, since there are no processes."""
        return ()

    def stats(self, *, reset: bool = False) -> dict[str, float]:
        """Statistics of the exchange between processes: none."""
        return {}

    # ---- step

    def async_step_send(self: PoolEnv, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:  # type: ignore[misc]
        """Starts a step of these envs, with the actions of ``tensordict``, of shape ``[k]``."""
        _send(self, _STEP, tensordict, env_index)

    def async_step_recv(  # type: ignore[misc]
        self: PoolEnv,
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

    def async_step_and_maybe_reset_send(  # type: ignore[misc]
        self: PoolEnv, tensordict: TensorDictBase, env_index: EnvIndex = None
    ) -> None:
        """Starts a step of these envs, and a new episode where it ends one."""
        _send(self, _STEP_AND_RESET, tensordict, env_index)

    def async_step_and_maybe_reset_recv(  # type: ignore[misc]
        self: PoolEnv,
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

    def async_reset_send(  # type: ignore[misc]
        self: PoolEnv, tensordict: TensorDictBase | None = None, env_index: EnvIndex = None
    ) -> None:
        """Starts a new episode in these envs; without both arguments, in all."""
        if tensordict is None and env_index is None:
            env_index = range(self.num_envs)
        _send(self, _RESET, tensordict, env_index)

    def async_reset_recv(  # type: ignore[misc]
        self: PoolEnv,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """What ``reset`` returns, for some of the envs: ``[k]``. As :meth:`async_step_recv`."""
        return _receive(self, _RESET, min_get, env_index, max_get, timeout)[0]

    # ---- a hook for AsyncEnvPool's own classes

    def _index_entry(self: PoolEnv, indices: list[int]) -> Any:  # type: ignore[misc]
        return torch.tensor(indices, dtype=torch.int64, device=self.device)


def _send(env: PoolEnv, op: _core.Op, tensordict: TensorDictBase | None, env_index: EnvIndex) -> None:
    pool = env._start() if op is _RESET else env._running()
    indices = _indices(env, tensordict, env_index)
    alone = isinstance(env_index, int)
    if tensordict is None:
        entries: dict[Key, Any] = {}
    else:
        if alone and tensordict.batch_size == torch.Size([]):
            tensordict = tensordict.unsqueeze(0)
        if tensordict.batch_size != torch.Size([len(indices)]):
            raise ValueError(
                f"tensordict: expected batch size [{len(indices)}], one row per env of env_index, "
                f"got {list(tensordict.batch_size)}"
            )
        if tensordict.device != env.device:
            tensordict = tensordict.to(env.device)
        entries = {key: value for key, value in tensordict.items() if key not in _NOT_CARRIED}
    # Kept until `send` has copied what lies at the addresses.
    actions, addresses = ([], []) if op is _RESET else _actions(env, tensordict, len(indices))
    if env._flight is None:
        env._flight = _Flight(env, pool)
    flight = env._flight
    with flight.lock:
        pool.send(op, indices, addresses, alone)
        for row, index in enumerate(indices):
            flight.sent[index] = entries, row
    del actions


def _receive(
    env: PoolEnv,
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
    try:
        if env_index is None:
            received = pool.receive(op, least, max_get or 0, timeout)
        else:
            (index,) = env._indices(env_index)
            received = pool.receive_alone(op, index, timeout)
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    if received is None:
        raise TimeoutError(
            f"fewer than {least} results were there after {timeout} s; what is ready waits for the next call"
        )
    indices, resets = received
    flight = env._flight
    assert flight is not None
    with flight.lock:
        sent = [flight.sent[index] for index in indices]
        for index in indices:
            flight.sent[index] = None
    rows = torch.tensor(indices)
    staged = flight.root if op is _RESET else flight.out
    values = {key: _take(tensor, rows, env._pin_memory) for key, tensor in staged.items()}
    started = [k for k, reset in enumerate(resets) if reset]
    first = {}
    if started:
        first_rows = torch.tensor([indices[k] for k in started])
        first = {key: tensor.index_select(0, first_rows) for key, tensor in flight.root.items()}
    pool.release(indices)  # the staged rows may be written again

    data, next_root = _assemble(env, op, indices, sent, values, started, first)
    if env_index is not None:
        return data[0], None if next_root is None else next_root[0]
    return data, next_root


def _assemble(
    env: PoolEnv,
    op: _core.Op,
    indices: list[int],
    sent: Sequence[tuple[dict[Key, Any], int] | None],
    values: dict[Key, torch.Tensor],
    started: list[int],
    first: dict[Key, torch.Tensor],
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """The tensordicts that the env's synchronous twin of the operation returns, for these envs."""
    number = env._index_entry(indices)
    on_device = values if env._on_cpu else env._on_device(values)
    root = _rows_sent(sent)
    if op is _RESET:
        return _tensordict(env, {**root, **on_device, "env_index": number}, len(indices)), None
    next_td = _tensordict(env, on_device, len(indices))
    data = _tensordict(env, {**root, "env_index": number, "next": next_td}, len(indices))
    if op is _STEP:
        return data, None
    carried = {key: value for key, value in root.items() if key not in env._not_carried}
    reset_values = {key: values[key] for key in first} if first else None
    if reset_values is None:
        rewards = env._allocator.reward_keys
        carried.update({key: value for key, value in on_device.items() if key not in rewards})
    else:
        where = torch.tensor(started)
        env._clear_carried(carried, on_device["done"])
        fresh = {key: value.clone().index_copy_(0, where, first[key]) for key, value in reset_values.items()}
        carried.update(fresh if env._on_cpu else env._on_device(fresh))
    next_root = _tensordict(env, {**carried, "env_index": number}, len(indices))
    if env._post_step_mdp_hooks is not None:
        data, next_root = env._post_step_mdp_hooks(data, next_root)
    return data, next_root


def _rows_sent(sent: Sequence[tuple[dict[Key, Any], int] | None]) -> dict[Key, Any]:
    """The entries that the envs' rows were sent with; of several sends, those that all of them had."""
    sources: dict[int, tuple[dict[Key, Any], list[int], list[int]]] = {}
    for position, origin in enumerate(sent):
        assert origin is not None
        entries, row = origin
        _, rows, positions = sources.setdefault(id(entries), (entries, [], []))
        rows.append(row)
        positions.append(position)
    groups = list(sources.values())
    if len(groups) == 1:
        entries, rows, _ = groups[0]
        return {key: _select(value, rows) for key, value in entries.items()}
    order = (
        torch.tensor([position for _, _, positions in groups for position in positions]).argsort().tolist()
    )
    keys = [key for key in groups[0][0] if all(key in entries for entries, _, _ in groups)]
    return {
        key: _concatenate([_select(entries[key], rows) for entries, rows, _ in groups], order) for key in keys
    }


def _select(value: Any, rows: list[int]) -> Any:
    """These rows of an entry; the entry itself where they are all of its rows in their order."""
    if rows == list(range(len(rows))) and value.shape[0] == len(rows):
        return value
    if isinstance(value, torch.Tensor):
        return value.index_select(0, torch.tensor(rows, device=value.device))
    return value[torch.tensor(rows)]


def _concatenate(parts: list[Any], order: list[int]) -> Any:
    if all(isinstance(part, torch.Tensor) for part in parts):
        return torch.cat(parts).index_select(0, torch.tensor(order, device=parts[0].device))
    if any(isinstance(part, (NonTensorData, NonTensorStack)) for part in parts):
        items = [item for part in parts for item in part.unbind(0)]
        return torch.stack([items[i] for i in order])
    return torch.cat(parts)[torch.tensor(order)]


def _take(tensor: torch.Tensor, rows: torch.Tensor, pin_memory: bool) -> torch.Tensor:
    """A fresh copy of these rows."""
    out = torch.empty((len(rows), *tensor.shape[1:]), dtype=tensor.dtype, device="cpu", pin_memory=pin_memory)
    return torch.index_select(tensor, 0, rows, out=out)


def _tensordict(env: PoolEnv, values: dict[Key, Any], count: int) -> TensorDict:
    if env._nested:
        return TensorDict(values, batch_size=[count], device=env.device)
    tensordict = TensorDict._new_unsafe(None, torch.Size([count]))
    tensordict._device = env.device
    tensordict._tensordict.update(values)
    return tensordict


def _indices(env: PoolEnv, tensordict: TensorDictBase | None, env_index: EnvIndex) -> list[int]:
    """The numbers of the envs that are sent."""
    if isinstance(env_index, int):
        return env._indices(env_index)
    if env_index is None and tensordict is not None:
        env_index = tensordict.get("env_index", None)
    if env_index is None:
        raise KeyError("expected env_index, or an entry 'env_index' in the tensordict")
    return env._indices(_flat(env_index))


def _flat(numbers: Any) -> Iterable[int]:
    if hasattr(numbers, "tolist"):  # a tensor, an array, a NonTensorStack
        numbers = numbers.tolist()
    for number in numbers if hasattr(numbers, "__iter__") else [numbers]:
        if hasattr(number, "__iter__"):
            yield from _flat(number)
        else:
            yield int(number)


def _actions(
    env: PoolEnv, tensordict: TensorDictBase | None, count: int
) -> tuple[list[torch.Tensor], list[int]]:
    if tensordict is None:
        raise TypeError("tensordict: expected the actions of a step, got None")
    return env._check_actions(tensordict, count)
