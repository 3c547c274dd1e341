"""Envs in flight: what is sent with them, and what a receiver gets of those that are ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import MOST_INT, EnvIndex, check_int, env_indices, names_one_env
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.specs import Key
from torchrl_pool._env.stepper import Stepper
from torchrl_pool._env.tensors import entries_of
from torchrl_pool._env.tracing import not_traced

#: Takes what envs have been given, ``[k]``, and a function that accepts it, after which the envs may be used;
#: returns what is received in its place, and the root that follows.
Finish: TypeAlias = Callable[
    [TensorDictBase, Callable[[], None]], tuple[TensorDictBase, TensorDictBase | None]
]

STEP, RESET, STEP_AND_RESET = _core.Op.step, _core.Op.reset, _core.Op.step_and_reset
_NOT_CARRIED = frozenset(("next", "_reset", "_step", "env_index"))


@not_traced
def send(
    stepper: Stepper,
    op: _core.Op,
    tensordict: TensorDictBase | None,
    env_index: EnvIndex,
    given: ResetArguments | None = None,
) -> None:
    """Sends these envs.

    Args:
        given: to a reset; ``None``: nothing.
    """
    env = stepper.env
    pool = env._simulators.start() if op is RESET else env._running()
    is_single = names_one_env(env_index)  # then it is received by its number
    if tensordict is None:
        indices, entries = indices_of(env, None, env_index), {}
    else:
        tensordict, indices = rows_of(env, tensordict, env_index)
        if tensordict.device != env.device:
            tensordict = tensordict.to(env.device)
        entries = _sent_entries(stepper, op, tensordict)
    if op is RESET:
        given = given or ResetArguments()
        if (states := env._actions.states_in(tensordict, len(indices))) is not None:
            given.states = states, None
        arguments = env._simulators.begin_reset(pool, indices, given)
        stepper.calls.send(pool, op, None, indices, is_single, entries, arguments)
        return
    if tensordict is None:
        raise TypeError("tensordict: expected the actions of a step, got None")
    inputs = stepper.inputs.prepared(entries_of(tensordict), len(indices))
    if not stepper.calls.send(pool, op, inputs, indices, is_single, entries):
        inputs = stepper.inputs.checked(inputs, len(indices))
        stepper.calls.send(pool, op, inputs, indices, is_single, entries)


def rows_of(
    env: EnvBase, tensordict: TensorDictBase, env_index: EnvIndex = None
) -> tuple[TensorDictBase, list[int]]:
    """The tensordict with a row ``[k]`` for each of the envs that it is for, and their numbers."""
    indices = indices_of(env, tensordict, env_index)
    if tensordict.batch_size == torch.Size([]) and len(indices) == 1:
        tensordict = tensordict.unsqueeze(0)
    if tensordict.batch_size != torch.Size([len(indices)]):
        raise ValueError(
            f"tensordict: expected batch size [{len(indices)}], one row per env of env_index, "
            f"got {list(tensordict.batch_size)}"
        )
    return tensordict, indices


def indices_of(env: EnvBase, tensordict: TensorDictBase | None, env_index: EnvIndex) -> list[int]:
    """The numbers of the envs that are sent."""
    if env_index is None and tensordict is not None:
        env_index = tensordict.get("env_index", None)
        if env_index is None and tensordict.batch_size == env.batch_size:
            return list(range(env.num_envs))  # what reset() returned, with actions
    if env_index is None:
        raise KeyError(
            "expected env_index, or an entry 'env_index' in the tensordict, or a row for each env, "
            f"got {'no tensordict' if tensordict is None else list(tensordict.batch_size)}"
        )
    return env_indices(env_index, env.num_envs)


def _sent_entries(stepper: Stepper, op: _core.Op, tensordict: TensorDictBase) -> dict[Key, Any]:
    """What travels with the envs: nothing that the pool writes."""
    items = tensordict._tensordict if type(tensordict) is TensorDict else tensordict
    entries = {key: value for key, value in items.items() if key not in _NOT_CARRIED}
    preset = items.get("next", None)
    if preset is not None:
        preset = preset if op is RESET else preset.exclude(*stepper.step_prototypes)
        if len(preset.keys()) > 0:
            entries["next"] = preset
    return entries


@not_traced
def receive(
    stepper: Stepper,
    op: _core.Op,
    min_get: int | None,
    env_index: int | None,
    max_get: int | None,
    timeout: float | None,
    finish: Finish | None = None,
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """What the operation has given envs that are ready, and the root that follows a step with resets.

    Args:
        finish: what a subclass makes of these, whose result is returned. If it raises, the results can be
            received again, unless the failure of an env holds them.
    """
    env = stepper.env
    least = env.min_get if min_get is None else min_get
    least = check_int("min_get", least, minimum=1, maximum=MOST_INT)
    if max_get is not None and check_int("max_get", max_get, minimum=1, maximum=MOST_INT) < least:
        raise ValueError(f"max_get: expected at least min_get ({least}), got {max_get}")
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout: expected seconds, at least 0, got {timeout}")
    if env_index is not None:
        (env_index,) = _one_env(env_index, env.num_envs)
    received = _core.Received(env._running())
    try:
        results = stepper.calls.receive(received, op, least, max_get or 0, timeout, env_index)
        if results is None:
            raise TimeoutError(
                f"expected at least {least} result{'s' * (least > 1)} within {timeout} s, got fewer; those "
                "that are ready stay for the next call"
            )
        data, next_root = _assemble(stepper, op, _rows_sent(received.cargo), *results)
        if finish is not None:
            data, next_root = finish(data, received.accept)
        if env_index is not None:
            data, next_root = data[0], None if next_root is None else next_root[0]
        received.accept()
        return data, next_root
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None
    except EnvFailure as failure:
        if env_index is not None and failure.tensordict is not None:
            failure.tensordict = failure.tensordict[0]
        received.accept()
        raise
    except BaseException:  # an interrupt, also one that came with the last call
        received.put_back()
        raise


def _one_env(env_index: Any, num_envs: int) -> list[int]:
    indices = env_indices(env_index, num_envs)
    if len(indices) != 1:
        raise ValueError(f"env_index: expected one env, got {indices}")
    return indices


def _assemble(
    stepper: Stepper,
    op: _core.Op,
    root: dict[Key, Any],
    values: dict[Key, torch.Tensor],
    first: dict[Key, torch.Tensor] | None,
    numbers: dict[str, torch.Tensor],
) -> tuple[TensorDictBase, TensorDictBase | None]:
    """The tensordicts that the env's synchronous twin of the operation returns, for these envs.

    ``first`` holds the next root's entries where some of the envs have begun an episode.
    """
    count = values["done"].shape[0]
    number = stepper.on_device(numbers)["env_index"]
    on_device = stepper.on_device(values)
    if op is RESET:
        return stepper.unsafe({**root, **on_device, "env_index": number}, num_rows=count), None
    next_td = stepper.unsafe(on_device, num_rows=count)
    if "next" in root:
        next_td.update(root.pop("next"))
    data = stepper.unsafe({**root, "env_index": number, "next": next_td}, num_rows=count)
    if op is STEP:
        return data, None
    if first is not None:
        on_device = stepper.on_device(first)
    following = stepper.next_root.following(root, on_device)
    following["env_index"] = number
    next_root = stepper.unsafe(following, num_rows=count)
    if (hooks := stepper.env._post_step_mdp_hooks) is not None:
        data, next_root = hooks(data, next_root)
    return data, next_root


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
            columns.append((out.data_ptr(), row_bytes, [_memory_of(part) for part in parts]))
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


def _memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a contiguous tensor's rows begin, and how many bytes there are: its storage may have shrunk."""
    storage = int(tensor.untyped_storage().nbytes())
    size = min(tensor.nbytes, storage - int(tensor.storage_offset()) * tensor.itemsize)
    return tensor.data_ptr(), max(size, 0)


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
