"""A stand-in for a CUDA device: work that is put in a stream is done as late, or as early, as it may be.

Under :class:`LateDevice` tensors "on cuda:0" are CPU memory that holds rubbish until the work in their stream
is done, and nothing is done before somebody waits for it. A copy that is not waited for then shows as wrong
data, and so does memory that was given back while another stream was still to read it. Pinned memory is read
when a copy runs, not when it is asked for.
"""

import weakref
from collections import deque
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torchrl_pool._collecting import rollout_storage
from torchrl_pool._collecting.direct_policy import values
from torchrl_pool._transforms import chain

CUDA = torch.device("cuda", 0)
RUBBISH = 0x5B
aten = torch.ops.aten
EMPTY = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty"}


class Stream:
    """Work in its order."""

    def __init__(self, device=None, eager=False):
        self.device, self._eager = CUDA, eager
        self._waiting, self.begun, self._given = deque(), 0, 0

    def give(self, work):
        self._waiting.append(work)
        self._given += 1
        if self._eager:
            self.run()

    def run(self, until=None):
        until = self._given if until is None else until
        while self.begun < until:
            self.begun += 1
            self._waiting.popleft()()

    def record_event(self):
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event):
        stream, until = event.place
        self.give(lambda: stream.run(until))

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())


class Event:
    """A place in a stream."""

    def __init__(self, *args, **kwargs):
        self.place = None

    def record(self, stream):
        self.place = stream, stream._given

    def synchronize(self):
        stream, until = self.place
        stream.run(until)


class Memory:
    """Of a tensor and its views; it may have another owner as soon as the last of them is gone."""

    def __init__(self, held, stream, mode):
        self.users, self.mode = set(), mode
        weakref.finalize(self, _let_go, held.untyped_storage(), stream, self.users).atexit = False


def _let_go(storage, stream, users):
    for user in users:
        stream.wait_stream(user)
    stream.give(lambda: storage.fill_(RUBBISH))


class LateTensor(torch.Tensor):
    """On the device: what its memory holds is known to the device alone."""

    @staticmethod
    def __new__(cls, held, memory):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=CUDA,
        )

    def __init__(self, held, memory):
        self.held, self.memory = held, memory

    # torch's own ask for the device's guard, which a build without CUDA lacks.
    def __getitem__(self, index):
        if isinstance(index, torch.Tensor):
            return aten.index.Tensor(self, [index])
        return LateTensor(self.held[index], self.memory)

    def __setitem__(self, index, value):
        if not isinstance(value, torch.Tensor):
            self[index].fill_(value)
        else:
            self[index].copy_(value)

    def contiguous(self):
        return self if self.held.is_contiguous() else self.clone(memory_format=torch.contiguous_format)

    def copy_(self, source, non_blocking=False):
        return self.memory.mode._copy(self, source, non_blocking)

    def record_stream(self, stream):
        self.memory.users.add(stream)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} outside of the device's mode")


def _type(value):
    return torch.Tensor if type(value) is LateTensor else type(value)


class LateDevice(TorchDispatchMode):
    """Calls of torch meanwhile see a CUDA device.

    Args:
        monkeypatch: pytest's.
        eager_copies: whether streams that are made meanwhile do their work at once.
    """

    def __init__(self, monkeypatch, eager_copies=False):
        super().__init__()
        self.current = Stream()
        self.streams = [self.current]
        self.pinned = {}
        self.waits = []  # what has made the host wait
        mode = self

        class CountedEvent(Event):
            def synchronize(self):
                mode.waits.append("event")
                super().synchronize()

        def make_stream(device=None):
            self.streams.append(Stream(device, eager_copies))
            return self.streams[-1]

        @contextmanager
        def use_stream(stream):
            before, self.current = self.current, stream
            yield
            self.current = before

        for name, value in {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "_lazy_init": lambda: None,
            "current_stream": lambda device=None: self.current,
            "Stream": make_stream,
            "Event": CountedEvent,
            "stream": use_stream,
            "synchronize": lambda device=None: self.synchronize(),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        make = torch.tensor

        def make_tensor(*args, device=None, **kwargs):
            there = device is not None and torch.device(device).type == "cuda"
            made = make(*args, device="cpu" if there else device, **kwargs)
            return made.to(CUDA) if there else made

        monkeypatch.setattr(torch, "tensor", make_tensor)
        for module in (rollout_storage, chain, values):  # which tell tensors from their subclasses
            monkeypatch.setattr(module, "type", _type, raising=False)

    def synchronize(self):
        self.waits.append("device")
        for stream in self.streams:
            stream.run()

    def host(self, tensor):
        """What a tensor holds when all is done."""
        if not isinstance(tensor, LateTensor):
            return tensor
        for stream in self.streams:
            stream.run()
        return tensor.held.clone()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        pins, to = kwargs.pop("pin_memory", None), kwargs.get("device")
        late = [value for value in tree_leaves((args, kwargs)) if isinstance(value, LateTensor)]
        goes_there = to is not None and torch.device(to).type == "cuda"
        if func is aten.copy_.default and (late or goes_there):
            return self._copy(args[0], args[1], len(args) > 2 and args[2])
        if func is aten._to_copy.default and to is not None and (late or goes_there):
            source = args[0]
            if goes_there != isinstance(source, LateTensor):
                held = torch.empty_like(source if not late else source.held, device="cpu")
                result = self._new(held) if goes_there else held
                result = self._copy(result, source, kwargs.get("non_blocking", False))
                dtype = kwargs.get("dtype")
                return result if dtype in (None, result.dtype) else result.to(dtype)
        if not late and not (goes_there and to is not None):
            result = func(*args, **kwargs)
            if pins:
                self.pinned[result.untyped_storage()._cdata] = result.untyped_storage()
            return result
        if to is not None:
            kwargs["device"] = torch.device("cpu")
        held = tree_map(lambda value: value.held if isinstance(value, LateTensor) else value, (args, kwargs))
        schema = func._schema
        if not all("Tensor" in str(value.type) for value in schema.returns):
            self._wait()
            return func(*held[0], **held[1])
        if schema.is_mutable:
            self.current.give(lambda: func(*held[0], **held[1]))
            return kwargs["out"] if "out" in kwargs else args[0]
        if any(value.alias_info is not None for value in schema.returns):
            return tree_map(lambda view: LateTensor(view, late[0].memory), func(*held[0], **held[1]))
        return self._later(func, *held)

    def _later(self, func, args, kwargs):
        """A call whose results are there when the stream has come so far."""

        def abstract(value):
            if isinstance(value, torch.Tensor) and (value.ndim or value.numel() > 1):
                return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            return value.to("meta") if isinstance(value, torch.Tensor) else value

        on_meta = tree_map(abstract, (args, kwargs))
        if "device" in kwargs:
            on_meta[1]["device"] = torch.device("meta")
        try:
            shapes = func(*on_meta[0], **on_meta[1])
        except NotImplementedError:  # the shape depends on values
            self._wait()
            shapes = func(*args, **kwargs)
        results = tree_map(
            lambda shape: torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype, device="cpu"),
            shapes,
        )
        late = tree_map(self._new, results)
        if func.name().split(".")[0] not in EMPTY:

            def work():
                made = func(*args, **kwargs)
                for to, value in zip(tree_leaves(results), tree_leaves(made), strict=True):
                    to.copy_(value)

            self.current.give(work)
        return late

    def _new(self, held):
        held.untyped_storage().fill_(RUBBISH)
        return LateTensor(held, Memory(held, self.current, self))

    def _copy(self, to, source, non_blocking):
        on_host = source if isinstance(to, LateTensor) else to
        if not isinstance(on_host, LateTensor):
            pinned = on_host.untyped_storage()._cdata in self.pinned
            if on_host is source and not (pinned and non_blocking):
                source = source.clone()  # torch has it staged before it returns
        there, here = (value.held if isinstance(value, LateTensor) else value for value in (to, source))
        self.current.give(lambda: there.copy_(here))
        if not non_blocking and not isinstance(on_host, LateTensor):
            self._wait()
        return to

    def _wait(self):
        self.waits.append("call")
        self.current.run()
