"""StepCounter: how far an episode is, and its end after ``max_steps``."""

from __future__ import annotations

import torch
from torchrl.envs.transforms import StepCounter

from torchrl_pool import _core
from torchrl_pool._transforms.ir import NotNative, Program, Value


def step_counter(transform: StepCounter, program: Program) -> None:
    program.watch(transform.__dict__, "max_steps", "update_done", "truncated_key", "step_count_key")
    if list(transform.reset_keys) != ["_reset"]:
        raise NotNative(f"there are further reset keys: {list(transform.reset_keys)}")
    if not transform.update_done:
        raise NotNative("it truncates episodes that are not done then (update_done=False)")
    if transform.max_steps is not None and transform.max_steps < 1:
        raise NotNative(f"its max_steps is {transform.max_steps}")
    most = transform.max_steps or 0
    if not isinstance(most, int) or most >= 1 << 62:
        raise NotNative(f"its max_steps is {most!r}")
    if transform.truncated_key != "truncated":
        raise NotNative(f"it writes the flag {transform.truncated_key!r}, which the pool does not have")
    if len(transform.all_truncated_keys) > 1:
        raise NotNative(f"agents have flags of their own: {list(transform.all_truncated_keys)}")
    key = transform.step_count_key
    shape = torch.Size([1])
    before = program.carry(key, shape, torch.int64, required=True)
    out = Value(shape, torch.int64)
    program.add(
        _core.stages.step_counter,
        reads=[],
        writes=[out],
        at_resets=True,
        shows_others=False,
        before=before,
        out=out,
        max_steps=most,
        truncated=program.read("truncated"),
        done=program.read("done") if transform.update_done else None,
    )
    program.write(key, out)
