"""EndOfLifeTransform: whether a life is over, from the number of them that an Atari task gives."""

from __future__ import annotations

from typing import Any

import torch
from torchrl.envs.transforms import EndOfLifeTransform

from torchrl_pool import _core
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.reshape import moved


def end_of_life(transform: EndOfLifeTransform, program: Program) -> None:
    program.watch(transform.__dict__, "eol_key", "lives_key", "done_key", "eol_attribute")
    if transform.eol_attribute != ["unwrapped", "ale", "lives"] or transform.done_key != "done":
        raise NotNative("it reads another attribute than the lives, or other flags than done")
    written: Any = program.entries.get("lives")
    if written is None or written.pool_column is None or written.shape != (1,):
        raise NotNative('it needs the lives of the envs: PoolEnv(..., info_keys=["lives"])')
    lives = moved(program, written, lambda column: column.squeeze(-1))
    before = program.carry(transform.lives_key, lives.shape, lives.dtype, required=True)
    done, out = program.read("done"), Value(torch.Size([1]), torch.bool)
    program.add(
        _core.stages.end_of_life,
        reads=[lives, done],
        writes=[out],
        lives=lives,
        before=before,
        done=done,
        out=out,
    )
    program.write(transform.eol_key, out)
    program.write(transform.lives_key, lives)
