"""What an episode is made of: its steps and their sums, where it begins, what it keeps, its lives."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import torch
from torchrl.data import TensorSpec
from torchrl.envs.transforms import (
    EndOfLifeTransform,
    FrameSkipTransform,
    InitTracker,
    NoopResetEnv,
    RewardSum,
    StepCounter,
    TensorDictPrimer,
    TrajCounter,
)

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain_builder import NUMBERS, ChainBuilder, NotNative, Repeat, Value
from torchrl_pool._transforms.native.parameters import check_resets
from torchrl_pool._transforms.native.reshape import copied, moved


def step_counter(transform: StepCounter, builder: ChainBuilder) -> None:
    """How far an episode is, and its end after ``max_steps``."""
    builder.watch(transform.__dict__, "max_steps", "update_done", "truncated_key", "step_count_key")
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
    before = builder.carry(key, shape, torch.int64, required=True)
    out = Value(shape, torch.int64)
    builder.add(
        _core.stages.step_counter,
        reads=[],
        writes=[out],
        at_resets=True,
        before=before,
        out=out,
        max_steps=most,
        truncated=builder.read("truncated"),
        done=builder.read("done") if transform.update_done else None,
    )
    builder.write(key, out)


def traj_counter(transform: TrajCounter, builder: ChainBuilder) -> None:
    """A number for each episode, from a count that stays in the transform."""
    builder.watch(transform.__dict__, "_traj_count", "_out_keys")
    key, count = transform.out_keys[0], transform._traj_count
    if not isinstance(key, str) or list(transform.parent.reset_keys) != ["_reset"]:
        raise NotNative(f"its numbers, {key!r}, are not of the root, or there are further reset keys")
    if type(count) is not Synchronized:
        raise NotNative(f"its count is {count!r}")
    shape, dtype = torch.Size([1]), torch.int64
    before = builder.carry(key, shape, dtype, required=True)
    out = Value(shape, dtype)
    copied(builder, before, out)
    builder.add(
        _core.stages.traj_counter,
        reads=[],
        writes=[out],
        at_steps=False,
        at_resets=True,
        learns=True,
        out=out,
        num_envs=builder.env.num_envs,
        count=ctypes.addressof(count.get_obj()),
    )
    builder.kept_alive.append(count)
    builder.write(key, out)
    transform._initialized = True  # as its own code does


def init_tracker(transform: InitTracker, builder: ChainBuilder) -> None:
    """Whether an episode begins here."""
    builder.watch(transform.__dict__, "init_key")
    if list(transform.init_keys) != [transform.init_key]:
        raise NotNative(f"there are several flags: {list(transform.init_keys)}")
    if transform.init_key in builder.entries:
        raise NotNative(f"{transform.init_key!r} is there already")
    out = Value(torch.Size([1]), torch.bool)
    builder.add(_core.stages.init_tracker, reads=[], writes=[out], at_resets=True, out=out)
    builder.write(transform.init_key, out)


def reward_sum(transform: RewardSum, builder: ChainBuilder) -> None:
    """The root's sum and the step's reward."""
    builder.watch(transform.__dict__, "_in_keys", "_out_keys", "_reset_keys")
    if transform.reward_spec:
        raise NotNative("its sums are rewards (reward_spec=True), which no root carries on")
    if any(key != "_reset" for key in transform.reset_keys):
        raise NotNative(f"its reset keys are {list(transform.reset_keys)}")
    for key, out_key in zip(transform.in_keys, transform.out_keys, strict=True):
        reward = builder.read(key)
        if not reward.dtype.is_floating_point:
            raise NotNative(f"{key!r} is {reward.dtype}, whose sums change their dtype")
        before = builder.carry(out_key, reward.shape, reward.dtype, required=False)
        out = Value(reward.shape, reward.dtype)
        builder.add(
            _core.stages.reward_sum,
            reads=[reward],
            writes=[out],
            at_resets=True,
            dtype=reward.number,
            reward=reward,
            before=before,
            out=out,
            size=reward.size,
        )
        builder.write(out_key, out)


def tensordict_primer(transform: TensorDictPrimer, builder: ChainBuilder) -> None:
    """What an episode begins with and keeps, unless a policy whose memory it is changes it."""
    names = ("primers", "random", "default_value", "single_default_value", "call_before_env_reset")
    builder.watch(transform.__dict__, *names)
    if transform.random:
        raise NotNative("it draws values from torch's generator (random=True)")
    if transform.single_default_value or transform.call_before_env_reset:
        raise NotNative("a function gives all its values, or before a reset")
    check_resets(transform, builder)
    for key, spec in _primers_of(transform, builder):
        first = transform.default_value[key]
        if type(transform.default_value) is dict:
            builder.watch(transform.default_value, key)
        if callable(first) or spec.dtype not in NUMBERS:
            raise NotNative(f"what {key!r} begins with comes from a function, or is {spec.dtype}")
        if key in builder.entries or key in builder.env.full_action_spec.keys(True, True):
            raise NotNative(f"{key!r} is there already")
        value = Value(spec.shape[1:], spec.dtype)
        before = builder.carry(key, value.shape, value.dtype, required=True, may_be_next=True)
        builder.add(
            _core.stages.episode_value,
            reads=[],
            writes=[value],
            at_resets=True,
            before=before,
            out=value,
            first=torch.full(value.shape, first, dtype=value.dtype, device="cpu").numpy().tobytes(),
        )
        builder.write(key, value)


def _primers_of(transform: TensorDictPrimer, builder: ChainBuilder) -> Iterator[tuple[Key, TensorSpec]]:
    """The specs of its entries, for all envs."""
    primers, num_envs = transform.primers, builder.env.num_envs
    if primers.shape[:1] != (num_envs,) and transform.expand_specs:  # as its own code does for its specs
        primers = primers.expand((num_envs, *primers.shape))
    for key, spec in primers.items(True, True):
        if spec.shape[:1] != (num_envs,):
            raise NotNative(f"{key!r} has shape {list(spec.shape)}: expected {num_envs} rows")
        yield key, spec


def end_of_life(transform: EndOfLifeTransform, builder: ChainBuilder) -> None:
    """Whether a life is over, from the number of them that an Atari task gives."""
    builder.watch(transform.__dict__, "eol_key", "lives_key", "done_key", "eol_attribute")
    if transform.eol_attribute != ["unwrapped", "ale", "lives"] or transform.done_key != "done":
        raise NotNative("it reads another attribute than the lives, or other flags than done")
    written: Any = builder.entries.get("lives")
    if written is None or written.pool_column is None or written.shape != (1,):
        raise NotNative('it needs the lives of the envs: PoolEnv(..., info_keys=["lives"])')
    lives = moved(builder, written, lambda column: column.squeeze(-1))
    before = builder.carry(transform.lives_key, lives.shape, lives.dtype, required=True)
    done, out = builder.read("done"), Value(torch.Size([1]), torch.bool)
    builder.add(
        _core.stages.end_of_life,
        reads=[lives, done],
        writes=[out],
        lives=lives,
        before=before,
        done=done,
        out=out,
    )
    builder.write(transform.eol_key, out)
    builder.write(transform.lives_key, lives)


def noop_reset(transform: NoopResetEnv, builder: ChainBuilder) -> None:
    """TorchRL's, always."""
    raise NotNative(
        "it takes random actions from torch's generator, in one env at a time; the option noop_max of Atari "
        "tasks begins episodes with as many no-ops, in the executor"
    )


def frame_skip(transform: FrameSkipTransform, builder: ChainBuilder) -> None:
    """An action is applied several times, up to the end of the episode; rewards add up.

    TorchRL's own code goes on past the end of an episode, in an env that nobody has reset.
    """
    builder.watch(transform.__dict__, "frame_skip")
    if transform.frame_skip == 1:
        return
    if builder.stages or builder.carried or builder.repeat is not None:
        raise NotNative("transforms before it see each of its steps: put it first")
    rewards = transform.parent.reward_keys
    reward = builder.read(rewards[0])
    if len(rewards) > 1 or reward.dtype not in (torch.float32, torch.float64):
        raise NotNative(f"its rewards are {rewards}, {reward.dtype}")
    builder.repeat = Repeat(transform.frame_skip, reward)
