"""A stand-in for a GPU, as strict as CUDA is and as late: the device ``"strict"``, registered with torch.

Its tensors hold CPU memory that nothing but their own operations reaches. An operation of tensors on both
devices raises, as CUDA's do (but for copies, indices and numbers without a dimension), ``numpy()``
raises, and what makes the host wait is noted.

Late, work that is put in a stream is done when somebody waits for it, and memory holds rubbish until then:
a copy that is not waited for shows as wrong data, and so does memory that was given back while another stream
was still to read it. Pinned memory is read when a copy runs, not when it is asked for.
"""

from __future__ import annotations

import weakref
from collections import deque
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
RUBBISH = 0x5B
aten = torch.ops.aten
# What takes tensors of both devices, on CUDA too.
MIXES = {aten.copy_, aten._to_copy, aten.index, aten.index_put_, aten._index_put_impl_}
EMPTY = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty}
waits: list[str] = []  # what has made the host wait: operations whose result it has read, and events


class Stream:
    """Work in its order."""

    def __init__(self, device: Any = None) -> None:
        self._waiting: deque[Callable[[], Any]] = deque()
        self.begun = self._given = 0

    def give(self, work: Callable[[], Any]) -> None:
        self._waiting.append(work)
        self._given += 1
        if not _late.on or (_late.eager_copies and self is not _late.main):
            self.run()

    def run(self, until: int | None = None) -> None:
        until = self._given if until is None else until
        while self.begun < until:
            self.begun += 1
            self._waiting.popleft()()

    def record_event(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        stream, until = event.place
        self.give(lambda: stream.run(until))

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())


class Event:
    """A place in a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def record(self, stream: Stream) -> None:
        self.place = stream, stream._given

    def synchronize(self) -> None:
        waits.append("event")
        stream, until = self.place
        stream.run(until)


class _Late:
    """Whether the device is late, and its streams."""

    def __init__(self) -> None:
        self.on, self.eager_copies = False, False
        self.main = self.current = Stream()
        self.streams = [self.main]
        self.pinned: dict[int, Any] = {}


class Memory:
    """Of a tensor and its views; it may have another owner as soon as the last of them is gone."""

    def __init__(self, held: torch.Tensor) -> None:
        self.users: set[Stream] = set()
        if _late.on:
            gone = weakref.finalize(self, _give_back, held.untyped_storage(), _late.current, self.users)
            gone.atexit = False


def _give_back(storage: Any, stream: Stream, users: set[Stream]) -> None:
    for user in users:
        stream.wait_stream(user)
    stream.give(lambda: storage.fill_(RUBBISH))


class StrictTensor(torch.Tensor):
    """A tensor on the device."""

    held: torch.Tensor
    memory: Memory

    @staticmethod
    def __new__(cls, held: torch.Tensor, memory: Memory | None = None) -> StrictTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=STRICT,
        )
        made.held, made.memory = held, Memory(held) if memory is None else memory
        return made

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return StrictTensor(self.held, self.memory)  # with a version of its own

    @data.setter
    def data(self, value: StrictTensor) -> None:
        self.held, self.memory = value.held, value.memory

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def record_stream(self, stream: Any) -> None:
        self.memory.users.add(stream)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return on_host(self).__reduce_ex__(protocol)  # a checkpoint is loaded to the CPU

    def tolist(self) -> Any:
        waits.append("tolist")
        return on_host(self).tolist()

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


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor holds when all is done; not noted."""
    if not isinstance(tensor, StrictTensor):
        return tensor
    for stream in _late.streams:
        stream.run()
    return tensor.held.clone() if _late.on else tensor.held


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
    if packet is aten.copy_:
        return _copy(args[0], args[1], *args[2:], **kwargs)
    if packet is aten._to_copy and goes_to is not None and is_made_here != bool(here):
        return _moved(args[0], is_made_here, **kwargs)
    if goes_to is not None:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    held_args, held_kwargs = tree_map(_held, (args, kwargs))
    if schema.is_mutable and packet is not aten._to_copy:
        written = [
            value
            for argument, value in _arguments(schema, args, kwargs)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        shapes = [one.shape for one in tree_leaves(written)]

        def write() -> None:
            func(*held_args, **held_kwargs)
            now = [_held(one).shape for one in tree_leaves(written)]
            assert now == shapes, f"{func} resizes, which this device cannot"

        _late.current.give(write)
        if not schema.returns:
            return None
        return written[0] if len(written) == 1 else tuple(written)
    if not any("Tensor" in str(one.type) for one in schema.returns):
        if packet not in (aten.sym_size, aten.is_same_size):
            _wait(str(func))
        return func(*held_args, **held_kwargs)
    if not here or not _late.on:
        return tree_map(_on_device, func(*held_args, **held_kwargs))
    if any(one.alias_info is not None for one in schema.returns):
        return tree_map(lambda view: StrictTensor(view, here[0].memory), func(*held_args, **held_kwargs))
    return _later(func, held_args, held_kwargs)


def _on_device(value: Any) -> Any:
    return StrictTensor(value) if isinstance(value, torch.Tensor) else value


def _wait(what: str) -> None:
    waits.append(what)
    _late.current.run()


def _later(func: Any, args: Any, kwargs: Any) -> Any:
    """A call whose results are there when the stream has come so far."""

    def abstract(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.ndim or value.numel() > 1:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return value.to("meta")

    on_meta = tree_map(abstract, (args, kwargs))
    if "device" in kwargs:
        on_meta[1]["device"] = torch.device("meta")
    try:
        shapes = func(*on_meta[0], **on_meta[1])
    except NotImplementedError:  # the shape depends on values
        _wait(str(func))
        shapes = func(*args, **kwargs)
    results = tree_map(_rubbish_like, shapes)
    made = tree_map(_on_device, results)

    def work() -> None:
        for to, value in zip(tree_leaves(results), tree_leaves(func(*args, **kwargs)), strict=True):
            to.copy_(value)

    if func.overloadpacket not in EMPTY:
        _late.current.give(work)
    return made


def _rubbish_like(value: torch.Tensor) -> torch.Tensor:
    held = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    held.untyped_storage().fill_(RUBBISH)
    return held


def _moved(source: torch.Tensor, up: bool, **kwargs: Any) -> torch.Tensor:
    """A copy on the other device, and then of another dtype."""
    held = _held(source)
    to = _rubbish_like(held) if held.is_contiguous() else _rubbish_like(torch.empty_like(held))
    moved = _copy(StrictTensor(to) if up else to, source, kwargs.get("non_blocking", False))
    dtype = kwargs.get("dtype")
    return moved if dtype in (None, moved.dtype) else moved.to(dtype)


def _copy(to: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    outside = source if isinstance(to, StrictTensor) else to
    is_on_host = not isinstance(outside, StrictTensor)
    if is_on_host:
        is_pinned = outside.untyped_storage()._cdata in _late.pinned
        if outside is source and not (is_pinned and non_blocking):
            source = source.clone()  # torch has it staged before it returns
    there, here = _held(to), _held(source)
    _late.current.give(lambda: there.copy_(here))
    if not non_blocking and outside is to and is_on_host:
        _wait("copy")
    elif not non_blocking and is_on_host:
        _late.current.run()
    return to


def _held(value: Any) -> Any:
    return value.held if isinstance(value, StrictTensor) else value


def _arguments(schema: Any, args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
    given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
    return [(one, given[one.name]) for one in schema.arguments if one.name in given]


class _Module(_DummyBackendModule):
    Event = Event

    def Stream(self, device: Any = None) -> Stream:
        _late.streams.append(Stream())
        return _late.streams[-1]

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, _late.current = _late.current, stream
        yield
        _late.current = before

    def current_stream(self, device: Any = None) -> Stream:
        return _late.current

    def synchronize(self, device: Any = None) -> None:
        for stream in _late.streams:
            stream.run()

    def get_rng_state(self, device: Any = None) -> torch.Tensor:  # torch's own holds for all
        return torch.empty(0)

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None: ...


_late = _Late()
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
def strict_device(*, late: bool = False, eager_copies: bool = False) -> Iterator[torch.device]:
    """The device, with what torch lacks of one that is written in Python.

    That is tensors from numbers, generators and pinned memory.

    Args:
        late: whether its work is done as late as it may be.
        eager_copies: whether streams other than the first do theirs at once.
    """
    make_empty = torch.empty

    def empty(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        made = make_empty(*args, **kwargs)
        if pin_memory:
            _late.pinned[made.untyped_storage()._cdata] = made.untyped_storage()
        return made

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
        _late.__init__()  # type: ignore[misc]
        _late.on, _late.eager_copies = late, eager_copies
        if late:
            patch.setattr(torch.cuda, "is_available", lambda: True)  # of which pinned memory is
        yield STRICT
        _late.__init__()  # type: ignore[misc]
