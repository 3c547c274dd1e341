"""RewardSum: the root's sum and the step's reward."""

from __future__ import annotations

from torchrl.envs.transforms import RewardSum

from torchrl_pool import _core
from torchrl_pool._transforms.ir import NotNative, Program, Value


def reward_sum(transform: RewardSum, program: Program) -> None:
    program.watch(transform.__dict__, "_in_keys", "_out_keys", "_reset_keys")
    if transform.reward_spec:
        raise NotNative("its sums are rewards (reward_spec=True), which no root carries on")
    if any(key != "_reset" for key in transform.reset_keys):
        raise NotNative(f"its reset keys are {list(transform.reset_keys)}")
    for key, out_key in zip(transform.in_keys, transform.out_keys, strict=True):
        reward = program.read(key)
        if not reward.dtype.is_floating_point:
            raise NotNative(f"{key!r} is {reward.dtype}, whose sums change their dtype")
        before = program.carry(out_key, reward.shape, reward.dtype, required=False)
        out = Value(reward.shape, reward.dtype)
        program.add(
            _core.stages.reward_sum,
            reads=[reward],
            writes=[out],
            at_resets=True,
            shows_others=False,
            dtype=reward.number,
            reward=reward,
            before=before,
            out=out,
            size=reward.size,
        )
        program.write(out_key, out)
