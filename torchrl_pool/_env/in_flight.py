"""Envs in flight: what is sent with them, and what a receiver gets of those that are ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import EnvIndex, env_indices, names_one_env
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.executor_env import ExecutorEnv, not_traced
from torchrl_pool._env.random_actions import indices_of, rows_of
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.specs import Key

STEP, RESET, STEP_AND_RESET = _core.Op.step, _core.Op.reset, _core.Op.step_and_reset
_NOT_CARRIED = frozenset(("next", "_reset", "_step", "env_index"))


class AsyncRows:
    """Rows for all envs, which the pool's threads write and the receiver copies."""

    def __init__(self, env: ExecutorEnv, pool: _core.Pool) -> None:
        self.out, out = env._stepper.out.make()
        self.root, root = env._stepper.root.make()
        pool.prepare_async(out, root, (self.out, self.root))


@not_traced
def send(
    env: ExecutorEnv,
    op: _core.Op,
    tensordict: TensorDictBase | None,
    env_index: EnvIndex,
    is_single: bool | None = None,
    given: ResetArguments | None = None,
) -> None:
    """Sends these envs.

    Args:
        is_single: whether each is received by its number, as those are that an int names.
        given: to a reset; ``None``: nothing.
    """
    pool = env._start() if op is RESET else env._running()
    if is_single is None:
        is_single = names_one_env(env_index)
    if tensordict is None:
        indices, entries = indices_of(env, None, env_index), {}
    else:
        tensordict, indices = rows_of(env, tensordict, env_index)
        if tensordict.device != env.device:
            tensordict = tensordict.to(env.device)
        entries = _sent_entries(env, op, tensordict)
    with env._opening:  # the first sends may come from several threads at once
        if env._async_rows is None:
            env._async_rows = AsyncRows(env, pool)
    if op is RESET:
        given = given or ResetArguments()
        if env._states is not None and tensordict is not None and env._states.are_in(tensordict):
            given.states = env._states.packed(tensordict, len(indices)), None
        arguments = env._begin_reset(pool, indices, given)
        pool.send(op, indices, [], is_single, entries, arguments)
        return
    # Kept until `send` has copied what lies at the addresses.
    actions, addresses = _actions(env, tensordict, len(indices))
    pool.send(op, indices, addresses, is_single, entries)
    del actions


def _sent_entries(env: ExecutorEnv, op: _core.Op, tensordict: TensorDictBase) -> dict[Key, Any]:
    """What travels with the envs: nothing that the pool writes."""
    items = tensordict._tensordict if type(tensordict) is TensorDict else tensordict
    entries = {key: value for key, value in items.items() if key not in _NOT_CARRIED}
    preset = items.get("next", None)
    if preset is not None:
        preset = preset if op is RESET else preset.exclude(*env._stepper.step_prototypes)
        if len(preset.keys()) > 0:
            entries["next"] = preset
    return entries


@not_traced
def receive(
    env: ExecutorEnv,
    op: _core.Op,
    min_get: int | None,
    env_index: int | None,
    max_get: int | None,
    timeout: float | None,
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """What the operation has given envs that are ready, and the root that follows a step with resets."""
    least = env.min_get if min_get is None else min_get
    if least < 1:
        raise ValueError(f"min_get: expected at least 1, got {least}")
    if max_get is not None and max_get < least:
        raise ValueError(f"max_get: expected at least min_get ({least}), got {max_get}")
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout: expected seconds, at least 0, got {timeout}")
    if env_index is not None:
        (env_index,) = _one_env(env_index, env.num_envs)
    pool, received = env._running(), None
    try:
        received = pool.receive(op, least, max_get or 0, timeout, env_index)
        if received is None:
            raise TimeoutError(
                f"expected at least {least} result{'s' * (least > 1)} within {timeout} s, got fewer; those "
                "that are ready stay for the next call"
            )
        data, next_root = _take_over(env, op, received)
        if env_index is not None:
            data, next_root = data[0], None if next_root is None else next_root[0]
        received.accept()
        return data, next_root
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    except BaseException:  # an interrupt, also one that came with the last call
        if received is not None:
            received.put_back()
        raise


def _one_env(env_index: Any, num_envs: int) -> list[int]:
    indices = env_indices(env_index, num_envs)
    if len(indices) != 1:
        raise ValueError(f"env_index: expected one env, got {indices}")
    return indices


def _take_over(
    env: ExecutorEnv, op: _core.Op, received: _core.Received
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """Copies what was received to tensors of its own."""
    count, stepper = len(received.envs), env._stepper
    values, addresses = (stepper.root if op is RESET else stepper.out).make(count)
    first: dict[Key, torch.Tensor] | None = None  # the next root, where an episode has begun
    first_addresses: list[int] = []
    if received.num_resets:
        first, first_addresses = stepper.root.make(count)
    numbers = torch.empty(count, dtype=torch.int64, device="cpu", pin_memory=env._pin_memory)
    received.copy_rows(addresses, first_addresses, numbers.data_ptr())
    number = env._on_device({"env_index": numbers})["env_index"]
    return _assemble(env, op, _rows_sent(received.cargo), values, first, number)


def _assemble(
    env: ExecutorEnv,
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
    if op is RESET:
        return env._unsafe({**root, **on_device, "env_index": number}, num_rows=count), None
    next_td = env._unsafe(on_device, num_rows=count)
    if "next" in root:
        next_td.update(root.pop("next"))
    data = env._unsafe({**root, "env_index": number, "next": next_td}, num_rows=count)
    if op is STEP:
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
    env: ExecutorEnv, tensordict: TensorDictBase | None, count: int
) -> tuple[list[torch.Tensor], list[int]]:
    if tensordict is None:
        raise TypeError("tensordict: expected the actions of a step, got None")
    return env._check_actions(tensordict, count)


def _rows_sent(sent: Sequence[tuple[dict[Key, Any], int]]) -> dict[Key, Any]:
    """The entries that the envs' rows were sent with; of several sends, those that all of them had."""
    sources: list[Mapping[Key, Any]] = []
    number_of: dict[int, int] = {}
    numbers, rows = [], []
    for entries, row in sent:
        number = number_of.setdefault(id(entries), len(sources))
        if number == len(sources):
            sources.append(entries)
        numbers.append(number)
        rows.append(row)
    if len(sources) == 1 and rows == list(range(len(rows))):
        whole = {key: value for key, value in sources[0].items() if value.shape[0] == len(rows)}
        if len(whole) == len(sources[0]):
            return whole
    return _gathered(sources, numbers, rows)


def _gathered(
    sources: Sequence[Mapping[Key, Any]], numbers: Sequence[int], rows: Sequence[int]
) -> dict[Key, Any]:
    """Entries whose row i is row ``rows[i]`` of the source number ``numbers[i]``."""
    gathered: dict[Key, Any] = {}
    columns = []
    for key, value in sources[0].items():
        if not all(key in entries for entries in sources):
            continue
        parts: list[Any] = [entries[key] for entries in sources]
        if all(_is_plain(part, value) for part in parts):
            out = (
                torch.empty_like(value)  # half the price
                if value.shape[0] == len(rows)
                else torch.empty((len(rows), *value.shape[1:]), dtype=value.dtype, device="cpu")
            )
            row_bytes = out.numel() // len(rows) * out.element_size()
            columns.append((out.data_ptr(), row_bytes, [part.data_ptr() for part in parts]))
            gathered[key] = out
        elif all(type(part) is TensorDict for part in parts):
            gathered[key] = TensorDict(
                _gathered([part._tensordict for part in parts], numbers, rows),
                batch_size=[len(rows), *value.batch_size[1:]],
                device=value.device,
                names=value._td_dim_names,
            )
        else:
            gathered[key] = torch.stack(
                [parts[number][row] for number, row in zip(numbers, rows, strict=True)]
            )
    if columns:
        _core.gather_rows(numbers, rows, columns)
    return gathered


def _is_plain(value: Any, like: Any) -> bool:
    """Whether rows of the value can be copied as bytes into rows of a tensor like the other."""
    return (
        type(value) is torch.Tensor
        and type(like) is torch.Tensor
        and value.is_cpu
        and value.dtype is like.dtype
        and value.shape[1:] == like.shape[1:]
        and value.is_contiguous()
        and not value.requires_grad
    )
