"""TensorDictPrimer: what an episode begins with and keeps, unless a policy whose memory it is changes it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torchrl.data import TensorSpec
from torchrl.envs.transforms import TensorDictPrimer

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import _NUMBERS, NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import check_resets


def tensordict_primer(transform: TensorDictPrimer, program: Program) -> None:
    names = ("primers", "random", "default_value", "single_default_value", "call_before_env_reset")
    program.watch(transform.__dict__, *names)
    if transform.random:
        raise NotNative("it draws values from torch's generator (random=True)")
    if transform.single_default_value or transform.call_before_env_reset:
        raise NotNative("a function gives all its values, or before a reset")
    check_resets(transform, program)
    for key, spec in _specs(transform, program):
        first = transform.default_value[key]
        if type(transform.default_value) is dict:
            program.watch(transform.default_value, key)
        if callable(first) or spec.dtype not in _NUMBERS:
            raise NotNative(f"what {key!r} begins with comes from a function, or is {spec.dtype}")
        if key in program.entries or key in program.env.full_action_spec.keys(True, True):
            raise NotNative(f"{key!r} is there already")
        value = Value(spec.shape[1:], spec.dtype)
        before = program.carry(key, value.shape, value.dtype, required=True, may_be_next=True)
        program.add(
            _core.stages.episode_value,
            reads=[],
            writes=[value],
            at_resets=True,
            shows_others=False,
            before=before,
            out=value,
            first=torch.full(value.shape, first, dtype=value.dtype, device="cpu").numpy().tobytes(),
        )
        program.write(key, value)


def _specs(transform: TensorDictPrimer, program: Program) -> Iterator[tuple[Key, TensorSpec]]:
    """The specs of its entries, for all envs."""
    primers, num_envs = transform.primers, program.env.num_envs
    if primers.shape[:1] != (num_envs,) and transform.expand_specs:  # as its own code does for its specs
        primers = primers.expand((num_envs, *primers.shape))
    for key, spec in primers.items(True, True):
        if spec.shape[:1] != (num_envs,):
            raise NotNative(f"{key!r} has shape {list(spec.shape)}: expected {num_envs} rows")
        yield key, spec
