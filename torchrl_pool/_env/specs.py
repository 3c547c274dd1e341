"""TorchRL's specs for what the plugins declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._workers.entries import STATES

Key: TypeAlias = "str | tuple[str, ...]"

#: Nested tensordicts, by their keys: what their batch sizes have besides the number of envs, of agents say.
NestedSizes: TypeAlias = "Mapping[tuple[str, ...], tuple[int, ...]]"


def torch_dtype(spec: _core.Spec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    return dtype


def key_named(name: str) -> Key:
    """The tensordict key of an entry: nested where its name has slashes."""
    parts = tuple(name.split("/"))
    return parts[0] if len(parts) == 1 else parts


def key_of(spec: _core.Spec) -> Key:
    """As :func:`key_named`."""
    return key_named(spec.name)


def actions_of(config: _core.Config) -> list[_core.Spec]:
    """What one env's steps read, but for states."""
    return [spec for spec in config.specs if spec.role == "action" and spec.name != STATES]


def action_shape(spec: _core.Spec, one_hot: bool) -> tuple[int, ...]:
    """Shape of one env's action as the user gives it."""
    return tuple(spec.one_hot_shape if one_hot else spec.shape)


def full_action_spec(
    configs: Sequence[_core.Config],
    one_hot: bool,
    device: torch.device | None,
    given: Mapping[str, TensorSpec],
    nested_sizes: Mapping[str, NestedSizes],
) -> Composite:
    """The actions of ``len(configs)`` envs, whose bounds may differ: leaves ``[N, *shape]``.

    Specs of one env that are given, by their names, stand as they are, where envs do not differ in bounds.
    """

    def convert(specs: Sequence[_core.Spec]) -> TensorSpec:
        if specs[0].categories:
            return _discrete(specs, one_hot, device)
        return _box(specs, device)

    columns = [actions_of(config) for config in configs]
    return _composite(columns, convert, device, given, nested_sizes.get("action", {}))


def full_output_spec(
    outputs: Sequence[Sequence[_core.Spec]],
    device: torch.device | None,
    given: Mapping[str, TensorSpec],
    nested_sizes: Mapping[str, NestedSizes],
) -> tuple[Composite, Composite, Composite]:
    """Observation, reward and done specs for the outputs of each env: leaves ``[N, *shape]``.

    Raises:
        ValueError: the envs' pictures differ in size.
    """
    pictures = {tuple(spec.shape) for specs in outputs for spec in specs if spec.name == "pixels"}
    if len(pictures) > 1:
        raise ValueError(f"from_pixels: the envs' pictures differ in size: {sorted(pictures)}")

    def convert(specs: Sequence[_core.Spec]) -> TensorSpec:
        spec = specs[0]
        shape = (len(specs), *spec.shape)
        if spec.dtype == "bool":
            return Categorical(2, shape=shape, dtype=torch.bool, device=device)
        if spec.categories:
            return _discrete(specs, spec.one_hot, device)
        return _box(specs, device)

    def select(*roles: str) -> Composite:
        columns = [[s for s in specs if s.role in roles] for specs in outputs]
        return _composite(columns, convert, device, given, nested_sizes.get(roles[0], {}))

    return select("observation", "info"), select("reward"), select("done")


def _discrete(specs: Sequence[_core.Spec], one_hot: bool, device: torch.device | None) -> TensorSpec:
    """As GymEnv has it: like choices stack, a list of different ones is one spec of several parts."""
    spec = specs[0]
    shape = (len(specs), *action_shape(spec, one_hot))
    like: dict[str, Any] = {"shape": shape, "dtype": torch.int64, "device": device}
    if len(spec.choices) == 1:
        return (OneHot if one_hot else Categorical)(spec.choices[0], **like)
    if one_hot:
        return MultiOneHot(spec.choices, **like)
    is_of_unlike_rows = len(spec.choices) > spec.shape[-1]
    choices = torch.tensor(spec.choices, device=device)
    return MultiCategorical(choices.reshape(spec.shape) if is_of_unlike_rows else choices, **like)


def _box(specs: Sequence[_core.Spec], device: torch.device | None) -> TensorSpec:
    spec, dtype = specs[0], torch_dtype(specs[0])
    if dtype is torch.bool:
        return Unbounded(shape=(len(specs), *spec.shape), dtype=dtype, device=device)
    shape = torch.Size((len(specs), *spec.shape))
    # Envs with equal options share their specs; a picture has a bound for every pixel.
    distinct = list({id(s): s for s in specs}.values())
    # Of what has no bounds torch draws no unsigned integers but bytes, and actions are drawn.
    is_drawn = spec.role == "action" and dtype in (torch.uint16, torch.uint32, torch.uint64)
    if not is_drawn and not any(s.low or s.high for s in distinct):
        return Unbounded(shape=shape, dtype=dtype, device=device)

    def bounds(side: Literal["low", "high"], missing: float) -> torch.Tensor:
        rows = {}
        for s in distinct:
            row = getattr(s, side) or [missing] * math.prod(spec.shape)
            rows[id(s)] = saturated(torch.tensor(row, dtype=torch.float64, device="cpu"), dtype)
        if all(torch.equal(row, rows[id(spec)]) for row in rows.values()):
            table = rows[id(spec)]
        else:
            table = torch.stack([rows[id(s)] for s in specs])
        return table.reshape(-1, *spec.shape).expand(shape).contiguous()

    if dtype is torch.int8 and spec.shape and all({*s.low} == {0} and {*s.high} == {1} for s in distinct):
        return Binary(spec.shape[-1], shape=shape, dtype=dtype, device=device)  # a MultiBinary space

    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    low = bounds("low", -torch.inf if dtype.is_floating_point else limits.min)
    high = bounds("high", torch.inf if dtype.is_floating_point else limits.max)
    return Bounded(low=low, high=high, shape=shape, dtype=dtype, device=device)


def saturated(bounds: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Doubles in this dtype, or its nearest; the largest int64 is a double that no int64 is."""
    if dtype.is_floating_point:
        return bounds.to(dtype)
    limits, doubles = torch.iinfo(dtype), bounds.numpy()
    with np.errstate(invalid="ignore"):
        table = doubles.astype(str(dtype).removeprefix("torch."))  # NumPy can do more with rare dtypes
    table[doubles >= limits.max] = limits.max
    table[doubles <= limits.min] = limits.min
    return torch.from_numpy(table)


def _composite(
    columns: Sequence[Sequence[_core.Spec]],
    convert: Callable[[Sequence[_core.Spec]], TensorSpec],
    device: torch.device | None,
    given: Mapping[str, TensorSpec],
    nested_sizes: NestedSizes,
) -> Composite:
    """One entry per spec of an env, each from that spec of every env."""
    num_envs = len(columns)
    composite = Composite(shape=(num_envs,), device=device)
    for index, spec in enumerate(columns[0]):
        known = given.get(spec.name)
        specs = [column[index] for column in columns]
        composite[key_of(spec)] = (
            convert(specs)
            if known is None or (isinstance(known, (Bounded, Unbounded)) and _differ(specs))
            else known.expand(num_envs, *known.shape).to(device or known.device)
        )
    for path, more in nested_sizes.items():
        if path in composite.keys(True):
            composite[path].shape = torch.Size([num_envs, *more])
    return composite


def _differ(specs: Sequence[_core.Spec]) -> bool:
    """Whether the bounds of some are not those of the first."""
    distinct = list({id(spec): spec for spec in specs}.values())
    first = distinct[0].low, distinct[0].high
    return any((spec.low, spec.high) != first for spec in distinct[1:])


def nested_sizes_of(nested_sizes: Mapping[str, NestedSizes], leaves: Mapping[str, TensorSpec]) -> NestedSizes:
    """What nested tensordicts have of the sizes of nested specs, which may differ: what fits all entries."""
    shapes = [(tuple(name.split("/")), tuple(spec.shape)) for name, spec in leaves.items()]
    sizes: dict[tuple[str, ...], tuple[int, ...]] = {}
    for role in ("observation", "action", "reward", "done"):
        for path, more in nested_sizes.get(role, {}).items():
            within = [shape for key, shape in shapes if key[: len(path)] == path]
            if all(shape[: len(more)] == more for shape in within):
                sizes.setdefault(path, more)
    return sizes


def check_dtypes(env: EnvBase, written: Mapping[Key, torch.Tensor]) -> None:
    """What ``run_type_checks`` makes sure of at each step: that the env writes what its specs say.

    Raises:
        TypeError: an entry has another dtype than its spec, which somebody has changed.
    """
    for key, spec in env.full_observation_spec.items(True, True):
        if key in written:
            spec.type_check(written[key], key)
    for kind, specs in (("reward", env.full_reward_spec), ("done", env.full_done_spec)):
        for key, spec in specs.items(True, True):
            if key in written and written[key].dtype is not spec.dtype:
                raise TypeError(f"expected {kind}.dtype to be {spec.dtype}, got {written[key].dtype}")
