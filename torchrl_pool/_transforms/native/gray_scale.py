"""GrayScale: one plane of grey out of three of colours."""

from __future__ import annotations

from math import prod

import torch
from torchrl.envs.transforms import GrayScale

from torchrl_pool import _core
from torchrl_pool._transforms.ir import _NUMBERS, NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import keys_of


def gray_scale(transform: GrayScale, program: Program) -> None:
    for key, out_key in keys_of(transform, program):
        value = program.read(key)
        shape = value.shape
        if len(shape) < 3 or shape[-3] != 3 or value.dtype is torch.bool:
            raise NotNative(
                f"{key!r} has rows of shape {list(shape)} and {value.dtype}: expected three channels"
            )
        out = Value(torch.Size((*shape[:-3], 1, *shape[-2:])), value.dtype)
        program.add(
            _core.stages.gray_scale,
            reads=[value],
            writes=[out],
            in_=value,
            out=out,
            dtype=value.number,
            real=_NUMBERS[torch.result_type(torch.empty(1, dtype=value.dtype), 0.5)],
            pictures=prod(shape[:-3]),
            plane=prod(shape[-2:]),
        )
        program.write(out_key, out)
