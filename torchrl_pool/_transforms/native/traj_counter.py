"""TrajCounter: a number for each episode, from a count that stays in the transform."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import Synchronized

import torch
from torchrl.envs.transforms import TrajCounter

from torchrl_pool import _core
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import lock_handle
from torchrl_pool._transforms.native.reshape import copied


def traj_counter(transform: TrajCounter, program: Program) -> None:
    program.watch(transform.__dict__, "_traj_count", "_out_keys")
    key, count = transform.out_keys[0], transform._traj_count
    if not isinstance(key, str) or list(transform.parent.reset_keys) != ["_reset"]:
        raise NotNative(f"its numbers, {key!r}, are not of the root, or there are further reset keys")
    if type(count) is not Synchronized:
        raise NotNative(f"its count is {count!r}")
    shape, dtype = torch.Size([1]), torch.int64
    before = program.carry(key, shape, dtype, required=True)
    out = Value(shape, dtype)
    copied(program, before, out)
    program.add(
        _core.stages.traj_counter,
        reads=[],
        writes=[out],
        at_steps=False,
        at_resets=True,
        learns=True,
        shows_others=False,
        out=out,
        num_envs=program.env.num_envs,
        count=ctypes.addressof(count.get_obj()),
        lock=lock_handle(count.get_lock()),
    )
    program.kept_alive.append(count)
    program.write(key, out)
    transform._initialized = True  # as its own code does
