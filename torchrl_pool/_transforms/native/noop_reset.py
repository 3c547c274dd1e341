"""NoopResetEnv: TorchRL's, always."""

from __future__ import annotations

from torchrl.envs.transforms import NoopResetEnv

from torchrl_pool._transforms.ir import NotNative, Program


def noop_reset(transform: NoopResetEnv, program: Program) -> None:
    raise NotNative(
        "it takes random actions from torch's generator, in one env at a time; the option noop_max of Atari "
        "tasks begins episodes with as many no-ops, in the executor"
    )
