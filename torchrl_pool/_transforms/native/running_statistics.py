"""VecNorm and VecNormV2: their statistics stay where they are, in the transform, and are written there."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torchrl._utils import _append_last
from torchrl.envs.transforms import VecNormV2
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import _core
from torchrl_pool._transforms.chain_builder import ChainBuilder, NotNative, Value
from torchrl_pool._transforms.native.parameters import address_of_state, keys_of, read_floats


def vec_norm(transform: VecNorm, builder: ChainBuilder) -> None:
    pairs = list(keys_of(transform, builder))
    if transform.shapes is not None:
        raise NotNative("its statistics have shapes of their own")
    values = {key: read_floats(builder, key) for key, _ in pairs}
    if len({id(value) for value in values.values()}) < len(pairs):
        raise NotNative("an entry is normalised twice")
    for key, value in values.items():
        sample = TensorDict({key: torch.zeros((1, *value.shape), dtype=value.dtype)}, [1])
        transform._init(sample, key)
    builder.watch(transform.__dict__, "_td", "decay", "eps", "frozen")
    for key, out_key in pairs:
        value = builder.read(key)
        of_row, of_count = (value.shape, value.dtype), (torch.Size([1]), torch.float32)
        sum_, ssq, count = (
            address_of_state(builder, transform._td, _append_last(key, name), *kind)
            for name, kind in (("_sum", of_row), ("_ssq", of_row), ("_count", of_count))
        )
        builder.map(
            key,
            out_key,
            _core.stages.vec_norm,
            Value(value.shape, value.dtype),
            learns=True,
            dtype=value.number,
            sum=sum_,
            ssq=ssq,
            count=count,
            decay=transform.decay,
            eps=transform.eps,
            frozen=transform.frozen,
        )


class _DefaultDtype:
    """In which TorchRL corrects what VecNormV2 has learned."""

    @staticmethod
    def get(name: str) -> torch.dtype:
        del name
        return torch.get_default_dtype()


def vec_norm_v2(transform: VecNormV2, builder: ChainBuilder) -> None:
    builder.watch(_DefaultDtype, "")
    if torch.get_default_dtype() is not torch.float32:
        raise NotNative(f"torch's default dtype is {torch.get_default_dtype()}")
    if not transform.stateful:
        raise NotNative("its statistics are entries of the tensordict (stateful=False)")
    pairs = list(keys_of(transform, builder))
    env = builder.env
    data = TensorDict(
        {
            key: torch.zeros((env.num_envs, *read_floats(builder, key).shape), dtype=builder.read(key).dtype)
            for key, _ in pairs
        },
        env.batch_size,
    )
    transform._maybe_stateful_init(data)
    builder.watch(transform.__dict__, "_loc", "_var", "_count", "decay", "eps", "frozen")
    reduces = bool(transform.reduce_batch_dims)
    if not reduces:
        builder.indivisible = "VecNormV2 counts the calls for all envs at once (reduce_batch_dims=False)"
    for key, out_key in pairs:
        value = builder.read(key)
        shape = value.shape if reduces else torch.Size((env.num_envs, *value.shape))
        builder.map(
            key,
            out_key,
            _core.stages.vec_norm_v2,
            Value(value.shape, value.dtype),
            learns=True,
            dtype=value.number,
            num_envs=env.num_envs,
            loc=address_of_state(builder, transform._loc, key, shape, value.dtype),
            var=address_of_state(builder, transform._var, key, shape, value.dtype),
            count=address_of_state(builder, transform._count, key, torch.Size([]), torch.int64),
            decay=transform.decay,
            eps=transform.eps,
            frozen=transform.frozen,
            reduces=reduces,
        )
