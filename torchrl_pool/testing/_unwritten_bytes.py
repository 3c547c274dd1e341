"""Finds entries that an env leaves partly unwritten, writes beyond, or fills with what its specs refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchrl_pool import _core
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import actions_of, full_output_spec, key_of, saturated, torch_dtype

_GUARD = 4096  # bytes on either side of a row that must not be written
_PATTERNS = (0xA5, 0x5A)


class _GuardedRow:
    """Memory for one env's row of an entry, filled with a pattern, between two guards."""

    def __init__(self, spec: _core.Spec) -> None:
        self.spec = spec
        self._dtype = torch_dtype(spec)
        size = torch.Size(spec.shape).numel() * self._dtype.itemsize
        self._memory = torch.empty(_GUARD + size + _GUARD, dtype=torch.uint8, device="cpu")
        self.bytes = self._memory[_GUARD : _GUARD + size]

    @property
    def address(self) -> int:
        return self._memory.data_ptr() + _GUARD

    def poison(self, pattern: int) -> None:
        self._memory.fill_(pattern)

    def is_overrun(self, pattern: int) -> bool:
        guards = self._memory[:_GUARD], self._memory[_GUARD + len(self.bytes) :]
        return any(bool((guard != pattern).any()) for guard in guards)

    def value(self) -> torch.Tensor:
        return self.bytes.clone().view(self._dtype).reshape(1, *self.spec.shape)


@contextlib.contextmanager
def _worded_failures() -> Iterator[None]:
    try:
        yield
    except _core.EnvFailure as error:
        raise env_failure(error, None) from None


class _Run:
    """One env that writes into poisoned rows."""

    def __init__(self, env: PoolEnv, pattern: int) -> None:
        self._pool, self._calls = env._simulators.start(), _core.Calls()
        self._pattern = pattern
        self._rows = [_GuardedRow(spec) for spec in env._outputs]

    def reset(self, entropy: list[list[int]]) -> list[_GuardedRow]:
        rows = [row for row in self._rows if row.spec.role != "reward"]
        addresses = [row.address if row in rows else 0 for row in self._rows]
        self._poison()
        with _worded_failures():
            out = rows, addresses
            given: _core.ResetArguments = (entropy, [], 0)
            self._calls.reset(self._pool, out, None, given)
        return self._checked(rows, "reset")

    def step(self, actions: list[torch.Tensor]) -> list[_GuardedRow]:
        self._poison()
        addresses = [row.address for row in self._rows]
        with _worded_failures():
            inputs = actions, [action.data_ptr() for action in actions]
            self._calls.step(self._pool, inputs, (self._rows, addresses))
        return self._checked(self._rows, "step")

    def _poison(self) -> None:
        for row in self._rows:
            row.poison(self._pattern)

    def _checked(self, rows: list[_GuardedRow], call: str) -> list[_GuardedRow]:
        for row in rows:
            if row.is_overrun(self._pattern):
                raise AssertionError(
                    f"{call} writes outside the row of {row.spec.name!r}, which its spec says is "
                    f"{row.spec.dtype} {row.spec.shape}"
                )
        return rows


def check_bytes(task: str, steps: int, options: Mapping[str, Any], *, leaves_bounds: bool = False) -> bool:
    """Plays two envs with one seed whose rows are filled with different patterns before each call.

    Args:
        task, steps, options: as of the check.
        leaves_bounds: whether actions leave their bounds, and observations may then do so too.

    Returns:
        Whether there are such actions.

    Raises:
        AssertionError: a byte follows the pattern, a guard does not, or a value is outside its spec.
        EnvFailure: the env has failed.
    """
    # Discrete entries as numbers: one-hot vectors are written by the executor.
    arguments = {
        **options,
        "categorical_action_encoding": True,
        "info_keys": all_info_keys(task, options),
        "device": "cpu",
    }
    envs = [PoolEnv(task, 1, **arguments) for _ in _PATTERNS]
    runs = [_Run(env, pattern) for env, pattern in zip(envs, _PATTERNS, strict=True)]
    composites = full_output_spec([envs[0]._outputs], None, {}, {})
    specs = {key: leaf for spec in composites for key, leaf in spec.items(True, True)}

    def compare(call: str, rows: tuple[list[_GuardedRow], ...]) -> bool:
        done = False
        for row, other in zip(*rows, strict=True):
            unwritten = ((row.bytes == _PATTERNS[0]) & (other.bytes == _PATTERNS[1])).nonzero().flatten()
            if not len(unwritten) and not torch.equal(row.bytes, other.bytes):
                raise AssertionError(
                    f"{call} writes {row.value().tolist()} to {row.spec.name!r}, "
                    f"and {other.value().tolist()} in a second run with the same seed and actions"
                )
            if len(unwritten):
                element = int(unwritten[0]) // torch_dtype(row.spec).itemsize
                raise AssertionError(
                    f"{call} does not write element {element} of {row.spec.name!r}, which its spec says is "
                    f"{row.spec.dtype} {row.spec.shape}"
                )
            if not leaves_bounds:
                _require_admitted(call, specs[key_of(row.spec)], row)
            done = done or (row.spec.name == "done" and bool(row.value().any()))
        return done

    bounded = [spec for spec in actions_of(envs[0]._configs[0]) if _is_bounded(spec)] if leaves_bounds else []
    if leaves_bounds and not bounded:
        return False
    compare("reset", tuple(run.reset([[11]]) for run in runs))
    for _ in range(steps):
        root = envs[0].rand_action()
        for spec in bounded:
            root[key_of(spec)] = _beyond(spec, root[key_of(spec)])
        actions = [root[key].contiguous() for key, _, _ in envs[0]._actions.layout]
        if compare("step", tuple(run.step(actions) for run in runs)):
            compare("reset", tuple(run.reset([]) for run in runs))
    for env in envs:
        env.close()
    return True


def _is_bounded(spec: _core.Spec) -> bool:
    """Whether numbers outside of its bounds reach the env: choices do not."""
    is_choice = spec.categories or spec.dtype == "bool"
    is_binary = spec.dtype == "int8" and {*spec.low} == {0} and {*spec.high} == {1}
    return not is_choice and not is_binary and bool(spec.low or spec.high)


def _beyond(spec: _core.Spec, action: torch.Tensor) -> torch.Tensor:
    """Numbers up to twice their range outside of it, on either side, where there are some."""
    low, high = (
        torch.tensor(bounds or [missing], dtype=torch.float64).expand(action.numel()).reshape(action.shape)
        for bounds, missing in ((spec.low, -torch.inf), (spec.high, torch.inf))
    )
    far = 2 * (high - low).nan_to_num(posinf=1) * torch.rand(action.shape, dtype=torch.float64)
    outside = torch.where(torch.rand(action.shape) < 0.5, low - far, high + far)
    # Beyond 1e10, which bounds may name that stand for none, simulators may break off.
    return saturated(torch.where(outside.abs() < 1e9, outside, action.double()), action.dtype)


def all_info_keys(task: str, options: Mapping[str, Any]) -> list[str]:
    """The task's own infos."""
    env = PoolEnv(task, 1, **options)
    return [spec.name for spec in env._configs[0].specs if spec.role == "info"]


def _require_admitted(call: str, spec: Any, row: _GuardedRow) -> None:
    if row.spec.dtype == "bool":
        admitted = bool((row.bytes <= 1).all())
        value = row.bytes
    else:
        value = row.value()
        admitted = bool(spec.is_in(value))
    if not admitted:
        raise AssertionError(
            f"{call} writes values to {row.spec.name!r} that its spec does not admit: {value.tolist()} "
            f"(expected {_admitted(row.spec)})"
        )


def _admitted(spec: _core.Spec) -> str:
    if spec.dtype == "bool":
        return "0 or 1"
    if spec.categories:
        return ", ".join(f"one of 0 to {count - 1}" for count in spec.choices)
    return f"at least {spec.low or '-inf'} and at most {spec.high or 'inf'}"
