"""What is done to entries number by number, at resets too: ObservationNorm, ClipTransform, SignTransform."""

from __future__ import annotations

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torchrl.envs.transforms import ClipTransform, ObservationNorm, SignTransform

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.ir import NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import Flags, changes_inputs, keys_of, map_affine, map_clamp


class _Kinds:
    """The classes of tensors, which change where one is given its shape."""

    def __init__(self, tensors: dict[str, torch.Tensor | None]) -> None:
        self._tensors = tensors

    def get(self, name: str) -> type:
        return type(self._tensors.get(name))


def observation_norm(transform: ObservationNorm, program: Program) -> None:
    program.watch(transform._buffers, "loc", "scale")
    program.watch(_Kinds(transform._buffers), "loc", "scale")
    program.watch(Flags(transform), "standard_normal")
    if any(isinstance(buffer, UninitializedTensorMixin) for buffer in (transform.loc, transform.scale)):
        raise NotNative("its loc and scale are not known yet")
    _changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        value = _floats(program, key)
        map_affine(
            program, key, out_key, value, transform.loc, transform.scale, bool(transform.standard_normal)
        )


def clip(transform: ClipTransform, program: Program) -> None:
    program.watch(transform._buffers, "low", "high")
    _changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        map_clamp(program, key, out_key, _floats(program, key), transform.low, transform.high)


def sign(transform: SignTransform, program: Program) -> None:
    _changes_actions(transform, program)
    for key, out_key in keys_of(transform, program):
        value = program.read(key)
        if value.dtype is torch.bool:
            raise NotNative(f"{key!r} is a flag")
        out = Value(value.shape, value.dtype)
        program.map(key, out_key, _core.stages.sign, out, dtype=value.number)


def _changes_actions(transform: ObservationNorm | ClipTransform | SignTransform, program: Program) -> None:
    changes_inputs(transform, program, (key for key, _, _ in program.env._action_layout))


def _floats(program: Program, key: Key) -> Value:
    value = program.read(key)
    if not value.dtype.is_floating_point:
        raise NotNative(f"{key!r} is {value.dtype}")
    return value
