"""A stand-in for a GPU that is as strict as CUDA is: the device ``"strict"``, registered with torch.

Its tensors hold CPU memory that nothing but their own operations reaches. An operation of tensors on both
devices raises, as CUDA's do (but for copies, indices and numbers without a dimension), ``numpy()``
raises, and what makes the host wait for a value is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch._decomp.decompositions import gru_impl, lstm_impl
from torch.utils._pytree import tree_leaves, tree_map
from torchrl.collectors import Collector

try:
    from torch.utils.backend_registration import (
        _DummyBackendModule,
        _setup_privateuseone_for_python_backend,
    )
except ImportError:
    pytest.skip(f"torch {torch.__version__} has no devices in Python", allow_module_level=True)

from torchrl_pool._collecting import rollout_storage
from torchrl_pool._collecting.direct_policy import actions, distributions, values
from torchrl_pool._transforms import chain

NAME = "strict"
aten = torch.ops.aten
# What takes tensors of both devices, on CUDA too.
MIXES = {aten.copy_, aten._to_copy, aten.index, aten.index_put_, aten._index_put_impl_}
waits: list[str] = []  # operations whose result the host has read


class StrictTensor(torch.Tensor):
    """A tensor on the device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> StrictTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=STRICT,
        )
        made.held = held
        return made

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, value: StrictTensor) -> None:
        self.held = value.held

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.held.__reduce_ex__(protocol)  # a checkpoint is loaded to the CPU

    def tolist(self) -> Any:
        waits.append("tolist")
        return self.held.tolist()

    def __repr__(self, **kwargs: Any) -> str:
        return f"{self.held!r} on {STRICT}"

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        with torch.no_grad():
            copy = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, self.requires_grad)
        else:
            copy.requires_grad_(self.requires_grad)
        memo[id(self)] = copy
        return copy

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, *args, **(kwargs or {}))


def _call(func: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    here = [one for one in tensors if isinstance(one, StrictTensor)]
    packet, schema = func.overloadpacket, func._schema
    others = [one for one in tensors if not isinstance(one, StrictTensor) and one.ndim]
    if here and others and packet not in MIXES:
        raise RuntimeError(f"{func}: expected all tensors on {STRICT}, got one on {others[0].device}")
    generator = kwargs.get("generator")
    goes_to = kwargs.get("device")
    is_made_here = goes_to is not None and torch.device(goes_to).type == NAME
    if generator is not None and (here or is_made_here) and generator._cdata not in StrictGenerator.made:
        raise RuntimeError(f"{func}: expected a generator of {STRICT}, got one of the CPU")
    if goes_to is not None:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    held_args, held_kwargs = tree_map(_held, (args, kwargs))
    result = func(*held_args, **held_kwargs)
    if schema.is_mutable and packet is not aten._to_copy:
        written = [
            value
            for argument, value in _arguments(schema, args, kwargs)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        for one in tree_leaves(written):
            assert one.shape == _held(one).shape, f"{func} resizes, which this device cannot"
        if not schema.returns:
            return None
        return written[0] if len(written) == 1 else tuple(written)
    if any("Tensor" in str(one.type) for one in schema.returns):
        stays = goes_to is None or is_made_here
        if packet is aten._to_copy and goes_to is None:
            stays = bool(here)
        if not stays:
            waits.append(str(func))
            return tree_map(lambda one: one.clone() if one is held_args[0] else one, result)
        return tree_map(lambda one: StrictTensor(one) if isinstance(one, torch.Tensor) else one, result)
    if packet not in (aten.sym_size, aten.is_same_size):
        waits.append(str(func))
    return result


def _held(value: Any) -> Any:
    return value.held if isinstance(value, StrictTensor) else value


def _arguments(schema: Any, args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
    given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
    return [(one, given[one.name]) for one in schema.arguments if one.name in given]


class _Done:
    """A stream or an event: all work is done at once."""

    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...


class _Module(_DummyBackendModule):
    Event = _Done

    def current_stream(self, device: Any = None) -> _Done:
        return _Done()

    def synchronize(self, device: Any = None) -> None: ...

    def get_rng_state(self, device: Any = None) -> torch.Tensor:  # torch's own holds for all
        return torch.empty(0)

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None: ...


_setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
STRICT = torch.device(NAME, 0)


def _lstm(
    data: torch.Tensor, states: list[torch.Tensor], *how: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    output, *after = lstm_impl(data, states, *how)
    hidden, cell = (one.reshape(states[0].shape) for one in after)  # torch 2.11 has a dimension more there
    return output, hidden, cell


_library = torch.library.Library("_", "IMPL")
_library.fallback(_call, "PrivateUse1")
_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("lstm.input", _lstm, "AutogradPrivateUse1")  # torch's own for a device is one kernel
_kernels.impl("gru.input", gru_impl, "AutogradPrivateUse1")
for _name in ("default", "start", "start_step"):  # torch's own resizes a tensor
    _kernels.impl(
        "arange" if _name == "default" else f"arange.{_name}",
        partial(_call, getattr(aten.arange, _name)),
        "PrivateUse1",
    )


class StrictGenerator(torch.Generator):
    """One of the device, which draws the CPU's numbers."""

    device = property(lambda self: STRICT)
    made: ClassVar[set[int]] = set()  # what torch knows them by

    def __init__(self) -> None:
        self.made.add(self._cdata)


class _GeneratorClass(type):
    """Of what stands for ``torch.Generator``."""

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        return StrictGenerator() if torch.device(device).type == NAME else _CPUGenerator()

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _CPUGenerator)


_CPUGenerator = torch.Generator


class _Generator(metaclass=_GeneratorClass):
    pass


@contextmanager
def strict_device() -> Iterator[torch.device]:
    """The device, with what torch lacks of one that is written in Python.

    That is tensors from numbers, generators and pinned memory.
    """
    make_empty = torch.empty

    def empty(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        return make_empty(*args, **kwargs)

    def kind(value: Any) -> type:
        return torch.Tensor if type(value) is StrictTensor else type(value)

    def from_cpu(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
            if device is None or torch.device(device).type != NAME or isinstance(data, StrictTensor):
                return make(data, *args, device=device, **kwargs)
            return make(data, *args, device="cpu", **kwargs).to(device)

        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "tensor", from_cpu(torch.tensor))
        patch.setattr(torch, "as_tensor", from_cpu(torch.as_tensor))
        patch.setattr(torch, "empty", empty)
        patch.setattr(torch, "Generator", _Generator)
        for module in (rollout_storage, chain, values, actions, distributions):
            patch.setattr(module, "type", kind, raising=False)  # which tell tensors from their subclasses
        waits.clear()
        # It knows no other devices than CUDA's and the like.
        patch.setattr(Collector, "_get_sync_fn", lambda self, device: lambda: None)
        yield STRICT
