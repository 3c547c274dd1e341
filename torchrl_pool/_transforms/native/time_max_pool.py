"""TimeMaxPool: the latest values of an episode, which stay in the transform and are written there."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torchrl.envs.transforms import TimeMaxPool

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import address_of_state, check_resets, keys_of, needs_state


def time_max_pool(transform: TimeMaxPool, program: Program) -> None:
    program.watch(transform.__dict__, "buffer_size")
    check_resets(transform, program)
    if len(set(transform.in_keys)) < len(transform.in_keys):
        raise NotNative("an entry is twice in its in_keys")
    for key, out_key in keys_of(transform, program):
        value = program.read(key)
        if not value.at_resets or value.dtype is torch.bool:
            raise NotNative(f"{key!r} is {value.dtype}, or is not there at resets")
        program.map(
            key,
            out_key,
            _core.stages.time_max_pool,
            Value(value.shape, value.dtype),
            shows_others=False,
            dtype=value.number,
            kept=_kept(transform, program, key, value),
            times=transform.buffer_size,
            num_envs=program.env.num_envs,
        )


def _kept(transform: TimeMaxPool, program: Program, key: Key, value: Value) -> int:
    """The address of all envs' latest values."""
    name, num_envs = transform._buffer_name(key), program.env.num_envs
    if needs_state(transform, program, name):
        data = {key: torch.zeros((num_envs, *value.shape), dtype=value.dtype, device="cpu")}
        transform._make_missing_buffer(TensorDict(data, [num_envs]), key, name)
    shape = torch.Size((transform.buffer_size, num_envs, *value.shape))
    return address_of_state(program, transform._buffers, name, shape, value.dtype)
