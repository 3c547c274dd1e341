"""DTypeCastTransform and DoubleToFloat: entries in another dtype, and actions back."""

from __future__ import annotations

from torchrl.envs.transforms import DTypeCastTransform

from torchrl_pool import _core
from torchrl_pool._transforms.ir import _NUMBERS, NotNative, Program, Value
from torchrl_pool._transforms.native.parameters import changes_inputs, keys_of


def dtype_cast(transform: DTypeCastTransform, program: Program) -> None:
    program.watch(transform.__dict__, "dtype_in", "dtype_out")
    pairs = list(keys_of(transform, program))
    changes_inputs(transform, program, (key for key, _, _ in program.env._action_layout))
    dtype = transform.dtype_out
    for key, out_key in pairs:
        value = program.read(key)
        if value.dtype is dtype:
            program.write(out_key, value)
            continue
        if not dtype.is_floating_point or dtype not in _NUMBERS:
            raise NotNative(f"it makes {value.dtype} into {dtype}")
        program.map(
            key,
            out_key,
            _core.stages.cast,
            Value(value.shape, dtype),
            from_dtype=value.number,
            to_dtype=_NUMBERS[dtype],
        )
