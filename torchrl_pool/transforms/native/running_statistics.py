"""VecNorm and VecNormV2: their statistics stay where they are, in the transform, and are written there."""

from __future__ import annotations

import multiprocessing.synchronize
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl._utils import _append_last
from torchrl.envs.transforms import VecNormV2
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import _core
from torchrl_pool.env.specs import Key
from torchrl_pool.transforms.native.parameters import keys_of
from torchrl_pool.transforms.program import NotNative, Program, Value


def vec_norm(transform: VecNorm, program: Program) -> None:
    pairs = list(keys_of(transform, program))
    if transform.shapes is not None:
        raise NotNative("its statistics have shapes of their own")
    for key, _ in pairs:
        value = _floats(program, key)
        if len({id(program.entries[key]) for key, _ in pairs}) < len(pairs):
            raise NotNative("an entry is normalised twice")
        sample = TensorDict({key: torch.zeros((1, *value.shape), dtype=value.dtype)}, [1])
        transform._init(sample, key)
    program.watch(transform.__dict__, "_td", "lock", "decay", "eps", "frozen")
    lock = _lock_handle(transform.lock)
    for key, out_key in pairs:
        value = program.read(key)
        sum_, ssq, count = (
            _statistic(program, transform._td, _append_last(key, name), value.shape, value.dtype)
            if name != "_count"
            else _statistic(program, transform._td, _append_last(key, name), torch.Size([1]), torch.float32)
            for name in ("_sum", "_ssq", "_count")
        )
        program.map(
            key,
            out_key,
            _core.stages.vec_norm,
            Value(value.shape, value.dtype),
            learns=True,
            dtype=value.number,
            sum=sum_,
            ssq=ssq,
            count=count,
            lock=lock,
            decay=transform.decay,
            eps=transform.eps,
            frozen=transform.frozen,
        )


def vec_norm_v2(transform: VecNormV2, program: Program) -> None:
    if not transform.stateful:
        raise NotNative("its statistics are entries of the tensordict (stateful=False)")
    pairs = list(keys_of(transform, program))
    env = program.env
    data = TensorDict(
        {
            key: torch.zeros((env.num_envs, *_floats(program, key).shape), dtype=program.read(key).dtype)
            for key, _ in pairs
        },
        env.batch_size,
    )
    transform._maybe_stateful_init(data)
    program.watch(transform.__dict__, "_loc", "_var", "_count", "lock", "decay", "eps", "frozen")
    lock = _lock_handle(transform.lock)
    reduces = bool(transform.reduce_batch_dims)
    for key, out_key in pairs:
        value = program.read(key)
        shape = value.shape if reduces else torch.Size((env.num_envs, *value.shape))
        program.map(
            key,
            out_key,
            _core.stages.vec_norm_v2,
            Value(value.shape, value.dtype),
            learns=True,
            dtype=value.number,
            num_envs=env.num_envs,
            loc=_statistic(program, transform._loc, key, shape, value.dtype),
            var=_statistic(program, transform._var, key, shape, value.dtype),
            count=_statistic(program, transform._count, key, torch.Size([]), torch.int64),
            lock=lock,
            decay=transform.decay,
            eps=transform.eps,
            frozen=transform.frozen,
            reduces=reduces,
        )


def _floats(program: Program, key: Key) -> Value:
    value = program.read(key)
    if not value.dtype.is_floating_point:
        raise NotNative(f"{key!r} is {value.dtype}")
    return value


def _statistic(
    program: Program, where: TensorDictBase, key: Key, shape: torch.Size, dtype: torch.dtype
) -> int:
    """The address of a tensor, which has to stay there."""
    tensor: Any = where.get(key)
    if type(tensor) is not torch.Tensor or tensor.shape != shape or tensor.dtype is not dtype:
        raise NotNative(f"the statistic {key!r} is {tensor!r}, expected {dtype} {list(shape)}")
    if not tensor.is_cpu or not tensor.is_contiguous():
        raise NotNative(f"the statistic {key!r} is on {tensor.device}, or not contiguous")
    program.watched.append((where, key, tensor))
    program.kept_alive.append(tensor)
    return tensor.data_ptr()


def _lock_handle(lock: Any) -> int:
    """The address of the semaphore behind a lock between processes."""
    if lock is None:
        return 0
    if type(lock) is not multiprocessing.synchronize.Lock:
        raise NotNative(f"its lock is a {type(lock).__name__}")
    semaphore: Any = lock
    return int(semaphore._semlock.handle)
