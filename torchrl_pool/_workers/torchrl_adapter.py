"""TorchRL's envs."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
)
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.common import _EnvWrapper

from torchrl_pool._workers.entries import STATES, Entry, bounds_of, joined

Key: TypeAlias = "str | tuple[str, ...]"
_FLAGS = ("done", "terminated", "truncated")


class TorchRLAdapter:
    """An :class:`~torchrl_pool._workers.adapters.Adapter` of an env of TorchRL without batch dimensions.

    What the env returns is carried on to its next step as ``step_mdp`` does, so that an env may keep its
    state in the tensordict; entries of its ``state_spec`` that a step is given come in the place of those.
    The flags of the env are those at the root; where all are nested, it is done as soon as a part of it is.
    A reset's seed is given to ``set_seed``, its options to ``reset(options=…)``.

    Args:
        env: the env.
        asked_for: names of observations that the env gives because ``info_keys`` asked for them.
    """

    is_restored = False
    tell_info: Callable[[Any, bool], None] | None = None

    def __init__(self, env: EnvBase, asked_for: Sequence[str] = ()) -> None:
        if isinstance(env, TransformedEnv):
            env.transform._check_batched_worker_compat()  # as SerialEnv does
        self.env = env
        specs = [
            env.full_action_spec,
            env.full_observation_spec,
            env.full_reward_spec,
            env.full_done_spec,
            env.full_state_spec,
        ]
        actions, observations, rewards, flags, states = map(_leaves, specs)
        for key in _FLAGS:
            if key in flags and flags[key].shape.numel() != 1:
                raise TypeError(
                    f"{key!r}: expected one flag for the env, got shape {tuple(flags[key].shape)}"
                )
        nested_flags = {key: spec for key, spec in flags.items() if key not in _FLAGS}
        self.states = _entries(states, "state")
        self._states = _States(states, self.states)
        self.entries = [
            *_entries(actions, "action"),
            *([Entry(STATES, "action", "uint8", (self._states.size,))] if states else []),
            *(
                _entry(key, spec, "info" if key in asked_for else "observation")
                for key, spec in observations.items()
            ),
            *_entries(rewards, "reward"),
            *_entries(nested_flags, "done"),
        ]
        self.specs: bytes = _pickled(specs)
        self._actions: list[Any] = [*actions]
        self._observations = list(observations)
        self._flags = {key: tuple(spec.shape) for key, spec in flags.items()}
        self._nested_flags = list(nested_flags)
        self._rewards = {key: tuple(spec.shape) for key, spec in rewards.items()}
        deciding: list[Any] = [key for key in flags if key in _FLAGS] or list(flags)
        self._done, self._terminated, self._truncated = (
            [key for key in deciding if (key if isinstance(key, str) else key[-1]) == name] for name in _FLAGS
        )
        self._carried = [*observations, *flags, *(key for key in rewards if key in states)]
        self._keys = list(dict.fromkeys([*self._carried, *rewards]))
        self._root: TensorDictBase | None = None
        self._beginning: tuple[TensorDictBase, bool | None] | None = None

    @property
    def has_own_state(self) -> bool:
        """Not that of an env within, from which TorchRL takes what a wrapper lacks."""
        return _has_own(self.env, "get_state") and _has_own(self.env, "set_state")

    def state(self) -> tuple[Any, Any]:
        return self.env, self._root

    def restore(self, state: tuple[Any, Any]) -> None:
        self.env, self._root = state

    def seed(self, seed: int) -> None:
        self.env.set_seed(seed)

    def begin_from(self, states: Any, set_state: bool | None) -> None:
        root = TensorDict()
        self._states.read(states, root)
        self._beginning = root, set_state

    @torch.no_grad()
    def reset(self, seed: int | None, options: Any) -> tuple[Sequence[Any], bool, bool]:
        if seed is not None:
            self.env.set_seed(seed)
        given = {} if options is None else {"options": options}
        beginning, self._beginning, self.is_restored = self._beginning, None, False
        if beginning is None:
            root = self.env.reset(**given)
        else:
            root = self.env.reset(beginning[0], set_state=beginning[1], **given)
        self._root = root.copy()
        values = _values(self._root, self._carried)
        for key in self._nested_flags:  # TorchRL completes those of a step, of a reset only those at the root
            if values[key] is None:
                values[key] = torch.zeros(self._flags[key], dtype=torch.bool)
        return self._outputs(values), *self._end(values)

    @torch.no_grad()
    def step(self, actions: Sequence[Any], is_last: bool = False) -> tuple[Sequence[Any], Any, bool, bool]:
        root = self._root
        if root is None:
            raise RuntimeError("step: the env has not been reset yet")
        if self.states:
            *actions, given = actions
            if not self.is_restored:
                self._states.read(given, root)
            self.is_restored = False
        for key, action in zip(self._actions, actions, strict=True):
            _set(root, key, torch.from_numpy(np.asarray(action)))
        after = self.env._step(root)
        values = _values(after, self._keys)
        for key in self._flags:
            if values[key] is None:
                values = _values(self.env._step_proc_data(after), self._keys)  # which completes them
                break
        for key in self._carried:
            _set(root, key, values[key])
        rewards = [_array(values[key], shape) for key, shape in self._rewards.items()]
        reward = rewards[0] if len(rewards) == 1 else tuple(rewards)
        return self._outputs(values), reward, *self._end(values)

    def _end(self, values: Mapping[Key, torch.Tensor]) -> tuple[bool, bool]:
        """Whether the episode is terminated, and whether it is truncated."""
        terminated = _is_any_set(values, self._terminated)
        truncated = _is_any_set(values, self._truncated)
        if not terminated and not truncated:  # it may be done without saying why
            truncated = _is_any_set(values, self._done)
        return terminated, truncated

    def _outputs(self, values: Mapping[Key, torch.Tensor]) -> list[Any]:
        try:
            outputs = [values[key].cpu().numpy() for key in self._observations]
        except AttributeError:
            missing = [key for key in self._observations if values[key] is None]
            if not missing:
                raise
            raise ValueError(f"the env returned no {_name(missing[0])!r}") from None
        for key in self._nested_flags:
            outputs.append(_array(values[key], self._flags[key]))
        return outputs


class _States:
    """The entries of a state spec among bytes: whether each is given, then the bytes of each."""

    def __init__(self, keys: Iterable[Key], entries: Sequence[Entry]) -> None:
        self._parts: list[tuple[Key, Entry, slice]] = []
        self.size = len(entries)
        for key, entry in zip(keys, entries, strict=True):
            begin, self.size = self.size, self.size + entry.num_bytes
            self._parts.append((key, entry, slice(begin, self.size)))

    def read(self, given: Any, root: TensorDictBase) -> None:
        """Writes what is given into a tensordict."""
        for number, (key, entry, place) in enumerate(self._parts):
            if given[number]:
                value = given[place].copy().view(entry.dtype).reshape(entry.shape)
                _set(root, key, torch.from_numpy(value))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        unsigned = (torch.uint16, torch.uint32, torch.uint64)  # torch writes their pickles, and reads none
        if isinstance(value, torch.Tensor) and value.dtype in unsigned and value.is_cpu:
            return torch.from_numpy, (value.numpy(),)
        return NotImplemented


def _pickled(specs: list[Composite]) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(specs)
    return buffer.getvalue()


def _has_own(env: EnvBase, method: str) -> bool:
    is_wrapper = isinstance(env, TransformedEnv | _EnvWrapper)
    if is_wrapper and method not in vars(env) and not hasattr(type(env), method):
        return False
    found = getattr(env, method, None)
    return callable(found) and getattr(found, "__func__", None) is not EnvBase.set_state


def _leaves(spec: Composite) -> Mapping[Key, TensorSpec]:
    return dict(spec.items(include_nested=True, leaves_only=True))


def _entries(leaves: Mapping[Key, TensorSpec], role: str) -> list[Entry]:
    return [_entry(key, spec, role) for key, spec in leaves.items()]


def _entry(key: Key, spec: TensorSpec, role: str) -> Entry:
    name, shape = _name(key), tuple(spec.shape)
    if isinstance(spec, NonTensor) or spec.dtype is None or -1 in shape:
        raise TypeError(
            f"{role} {name!r}: expected tensors of one shape and dtype, got {type(spec).__name__} of shape "
            f"{shape} and dtype {spec.dtype}: leave it out with ExcludeTransform, within the env"
        )
    dtype = str(spec.dtype).removeprefix("torch.")
    bounds: dict[str, Any] = {}
    categories: tuple[int, ...] = ()
    if isinstance(spec, OneHot) and role == "action":  # whose vectors the executor checks
        is_multi = isinstance(spec, MultiOneHot)
        choices = torch.as_tensor(spec.nvec).flatten().tolist() if is_multi else [int(spec.space.n)]
        categories = tuple(choices) * (int(np.prod(shape)) // sum(choices))
        return Entry(name, role, dtype, shape, categories=categories, one_hot=True)
    if isinstance(spec, Bounded):
        bounds = bounds_of(*(bound.flatten().tolist() for bound in (spec.space.low, spec.space.high)))
    elif spec.dtype is not torch.int64 or isinstance(spec, Binary):
        pass  # the executor has choices of int64 alone; the env's own spec says what others there are
    elif isinstance(spec, MultiCategorical):
        categories = tuple(torch.as_tensor(spec.nvec).expand(shape).flatten().tolist())
    elif isinstance(spec, Categorical):
        categories = (int(spec.space.n),) * int(np.prod(shape))
    return Entry(name, role, dtype, shape, **bounds, categories=categories)


def _name(key: Key) -> str:
    return joined((key,) if isinstance(key, str) else key)


def _get(tensordict: TensorDictBase, key: Key) -> Any:
    """None where it is missing."""
    return tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None)


def _set(tensordict: TensorDictBase, key: Key, value: torch.Tensor) -> None:
    if type(key) is str:
        tensordict._set_str(key, value, validated=True, inplace=False, non_blocking=False)
    else:
        tensordict.set(key, value)


def _values(tensordict: TensorDictBase, keys: Sequence[Key]) -> dict[Key, Any]:
    return {key: _get(tensordict, key) for key in keys}


def _is_any_set(values: Mapping[Key, torch.Tensor], flags: Sequence[Key]) -> bool:
    for key in flags:
        value = values[key]
        if value.item() if value.numel() == 1 else value.any():
            return True
    return False


def _array(tensor: torch.Tensor, shape: tuple[int, ...]) -> Any:
    array = tensor.cpu().numpy()
    return array if array.shape == shape else array.reshape(shape)
