"""FrameSkipTransform: an action is applied several times, up to the end of the episode; rewards add up.

TorchRL's own code goes on past the end of an episode, in an env that nobody has reset.
"""

from __future__ import annotations

import torch
from torchrl.envs.transforms import FrameSkipTransform

from torchrl_pool._transforms.ir import NotNative, Program, Repeat


def frame_skip(transform: FrameSkipTransform, program: Program) -> None:
    program.watch(transform.__dict__, "frame_skip")
    if transform.frame_skip == 1:
        return
    if program.instructions or program.carried or program.repeat is not None:
        raise NotNative("transforms before it see each of its steps: put it first")
    rewards = transform.parent.reward_keys
    reward = program.read(rewards[0])
    if len(rewards) > 1 or reward.dtype not in (torch.float32, torch.float64):
        raise NotNative(f"its rewards are {rewards}, {reward.dtype}")
    program.repeat = Repeat(transform.frame_skip, reward)
