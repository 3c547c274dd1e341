"""InitTracker: whether an episode begins here."""

from __future__ import annotations

import torch
from torchrl.envs.transforms import InitTracker

from torchrl_pool import _core
from torchrl_pool._transforms.ir import NotNative, Program, Value


def init_tracker(transform: InitTracker, program: Program) -> None:
    program.watch(transform.__dict__, "init_key")
    if list(transform.init_keys) != [transform.init_key]:
        raise NotNative(f"there are several flags: {list(transform.init_keys)}")
    if transform.init_key in program.entries:
        raise NotNative(f"{transform.init_key!r} is there already")
    out = Value(torch.Size([1]), torch.bool)
    program.add(
        _core.stages.init_tracker, reads=[], writes=[out], at_resets=True, shows_others=False, out=out
    )
    program.write(transform.init_key, out)
