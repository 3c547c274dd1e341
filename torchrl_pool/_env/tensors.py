"""Between tensordicts and the executor's memory: actions on their way in, results on their way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.buffers import BatchAllocator
from torchrl_pool._env.source import Source
from torchrl_pool._env.specs import Groups, Key
from torchrl_pool._env.states import StateEntries
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.transfers import down, up

_NO_GROUPS: Groups = {}
_Entries = type(TensorDict._new_unsafe()._tensordict)  # a dict of their own kind


class PlainEntries:
    """A quick look at entries of a tensordict that are just as the executor reads them, which nearly all are.

    Args:
        wanted: the key, dtype and shape of each.
        required: whether it has to be there. Default: all.
    """

    def __init__(
        self, wanted: Sequence[tuple[Key, torch.dtype, torch.Size]], required: Sequence[bool] | None = None
    ) -> None:
        self.find: Callable[..., tuple[list[Any], list[int]] | None] = _core.PlainTensors(
            tensor_type=torch.Tensor,
            tensordict_type=TensorDict,
            keys=[[key] if isinstance(key, str) else key for key, _, _ in wanted],
            tensors=[(list(shape), str(dtype).removeprefix("torch.")) for _, dtype, shape in wanted],
            required=[True] * len(wanted) if required is None else required,
        ).find
        """From a tensordict and a number of rows (None: all) to the tensors and their addresses.

        None and 0 stand for what may be missing and is. No result: one has to be looked at more closely,
        which may be an error.
        """


class TensorMethods(EnvBase):
    """What :class:`~torchrl_pool.PoolEnv` does with tensors, wherever they come from and go."""

    num_envs: int
    num_threads: int  # of this process, the calling one included
    num_workers: int  # worker processes
    _source: Source
    _outputs: Sequence[_core.Spec]
    _action_layout: Sequence[tuple[Key, torch.dtype, torch.Size]]
    _nested: bool  # whether an output or action lies in a tensordict of its own
    _plain_actions: PlainEntries
    _states: StateEntries | None  # what envs read besides actions
    _groups: Groups
    _next_root: NextRoot
    _pin_memory_wish: bool | None

    def _use_device(self) -> None:
        """Everything that follows from where the outputs go."""
        cuda = self.device is not None and self.device.type == "cuda"
        wish = self._pin_memory_wish
        self._pin_memory = cuda if wish is None else wish
        if self._pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True needs CUDA, which torch does not find here")
        self._on_cpu = self.device is None or self.device.type == "cpu"
        self._overlaps = self._on_cpu and self._source.has_helpers
        self._allocator = BatchAllocator(self._outputs, self.num_envs, self._pin_memory, not self._on_cpu)
        self.step_keys = list(self._allocator.step_templates)
        self.root_keys = [key for key in self.step_keys if key not in self._allocator.reward_keys]

    def _check_actions(
        self, tensordict: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """What a step reads, as contiguous CPU tensors, and their addresses. Values are checked in C++."""
        found = self._plain_actions.find(tensordict, num_rows)
        if found is None:
            found = self._check_closely(tensordict, num_rows)
        if self._states is not None:
            states = self._states.packed(tensordict, num_rows)
            found[0].append(states)
            found[1].append(states.data_ptr())
        return found

    def _check_closely(
        self, tensordict: TensorDictBase, num_rows: int | None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """The same for actions that are not just as the executor reads them."""
        actions, addresses = [], []
        for key, dtype, shape in self._action_layout:
            action = tensordict._get_str(key, None) if type(key) is str else tensordict.get(key, None)
            if not isinstance(action, torch.Tensor):
                if action is None:
                    raise KeyError(
                        f"expected an entry {key!r} in the tensordict, got {list(tensordict.keys())}"
                    )
                raise TypeError(f"{key!r}: expected a torch.Tensor, got {type(action).__name__}")
            if num_rows is not None:
                shape = torch.Size((num_rows, *shape[1:]))
            if action.shape != shape:
                kind, instead = _encoding(self.full_action_spec[key])
                raise ValueError(
                    f"{key!r}: expected {kind}shape {list(shape)}, got {list(action.shape)}{instead}"
                )
            if action.layout is not torch.strided:
                raise TypeError(f"{key!r}: expected a dense tensor, got one of layout {action.layout}")
            if action.dtype is not dtype:
                action = _as_choices(key, action, dtype)
            action = as_it_lies(action)
            if action.is_cpu:
                check_memory(key, action)
                addresses.append(action.data_ptr())
            elif self._on_cpu:
                raise ValueError(f"{key!r}: expected a tensor on cpu, got one on {action.device}")
            actions.append(action)
        if len(addresses) < len(actions):
            actions = down(actions)
            addresses = [action.data_ptr() for action in actions]
        return actions, addresses

    def _on_device(self, values: dict[Key, torch.Tensor]) -> dict[Key, torch.Tensor]:
        """What the executor has written, where users see it."""
        return values if self._on_cpu else up(values, self.device)

    def _tensordict(self, tensors: dict[Key, torch.Tensor]) -> TensorDict:
        return self._unsafe(self._on_device(tensors))

    def _unsafe(
        self, values: dict[Key, Any], names: Sequence[str | None] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """A tensordict of entries that are known to fit: a tenth of the checked constructor's cost."""
        batch_size = self._batch_size if num_rows is None else torch.Size([num_rows])
        return unsafe_tensordict(
            values, batch_size, self._device, names, nested=self._nested, groups=self._groups
        )


def _encoding(spec: TensorSpec) -> tuple[str, str]:
    """How discrete actions are encoded, for a message; and how to have the other encoding."""
    if isinstance(spec, (OneHot, MultiOneHot)):
        return "one-hot vectors of ", "; categorical_action_encoding=True takes the numbers of the choices"
    if isinstance(spec, (Categorical, MultiCategorical)):
        return "numbers of the choices, of ", "; categorical_action_encoding=False takes one-hot vectors"
    return "", ""


def _as_choices(key: Key, action: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same whole numbers: modules differ in what they make of one-hot vectors and indices."""
    kinds = (dtype, action.dtype)
    if not any(kind.is_floating_point or kind.is_complex for kind in kinds) and not action.is_meta:
        converted = action.to(dtype)
        if torch.equal(converted.to(action.dtype), action) and torch.equal(converted < 0, action < 0):
            return converted
    raise TypeError(f"{key!r}: expected dtype {dtype}, got {action.dtype}")


def as_it_lies(value: torch.Tensor) -> torch.Tensor:
    """The same, whose memory holds just its numbers one after the other: not the opposite of them, say."""
    if value.is_neg() or value.is_conj():
        value = value.resolve_conj().resolve_neg()
    return value.contiguous()


def check_memory(key: Key, value: torch.Tensor) -> None:
    """Raises ValueError: its numbers are nowhere, as a fake tensor's, or as where the storage was freed."""
    try:
        has_memory = value.data_ptr() != 0 or value.numel() == 0
    except RuntimeError:  # as those of vmap and grad say
        has_memory = False
    if not has_memory:
        raise ValueError(
            f"{key!r}: expected a tensor with memory of its own, got a fake, freed or functorch tensor"
        )


def unsafe_tensordict(
    values: dict[Key, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    names: Sequence[str | None] | None = None,
    *,
    nested: bool,
    groups: Groups = _NO_GROUPS,
) -> TensorDict:
    """A tensordict of entries that are known to fit, some of which may lie in tensordicts of their own."""
    # What TensorDict._new_unsafe does, which would convert the device and copy the entries one by one.
    tensordict: TensorDict = TensorDict.__new__(TensorDict)
    tensordict._device = device
    tensordict._batch_size = batch_size
    tensordict._td_dim_names = names
    if not nested:
        tensordict._tensordict = _Entries(values)
        return tensordict
    tensordict._tensordict = _Entries()
    own: dict[Key, TensorDict] = {}  # by key; those of the values are somebody else's
    for key, value in values.items():
        into, path = tensordict, ((key,) if isinstance(key, str) else key)
        for depth in range(1, len(path)):
            below = own.get(path[:depth])
            if below is None:
                found = into._tensordict.get(path[depth - 1])
                more = groups.get(path[path[0] == "next" : depth], ())
                below_names = names and [*names, *[None] * len(more)]
                below = unsafe_tensordict({}, batch_size + more, device, below_names, nested=False)
                if found is not None:
                    below._tensordict.update(found.items())
                own[path[:depth]] = into._tensordict[path[depth - 1]] = below
            into = below
        into._tensordict[path[-1]] = value
    return tensordict
