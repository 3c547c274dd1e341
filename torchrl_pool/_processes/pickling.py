"""What makes envs, as bytes for a process that is no copy of this one.

What ``__main__`` defines travels by value, for the program is not run again there. The other process has a
``__main__`` all the same, which holds what has travelled, under the names that it has here: so what an env
pickles there by name is found. What multiprocessing gives to its children travels as it does to them.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import functools
import io
import pickle
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from multiprocessing import context, reduction, synchronize
from typing import Any, NamedTuple

import cloudpickle

from torchrl_pool._processes.attributes import attributes_of, become
from torchrl_pool._processes.preloading import modules_named_by
from torchrl_pool._processes.registered_ids import know, registrations

_WAY_OUT = "Worker processes do not run your script: move it to a module and import it, or make it in the env"
_OF_A_MODULE = "__name__", "__file__", "__package__", "__path__"


class Pickled(NamedTuple):
    """What makes envs.

    Attributes:
        data: for :func:`load`.
        fds: descriptors of this process that go along.
        names: what of ``__main__`` is in it.
        modules: names of those that it is made of.
    """

    data: bytes
    fds: list[int]
    names: Mapping[str, Any]
    modules: set[str]


def dump(factories: Any) -> Pickled:
    """What makes envs, ready to be sent to a process that starts.

    Raises:
        TypeError: something cannot be pickled; the message says what.
    """
    child, names, file = _Child(), dict[str, Any](), io.BytesIO()
    main = sys.modules["__main__"]
    context.set_spawning_popen(child)  # type: ignore[arg-type]
    try:
        with _told("What makes the envs is sent to other processes", main):
            pickler = _Pickler(file, main)
            pickler.dump({name: vars(main)[name] for name in _OF_A_MODULE if name in vars(main)})
            pickler.dump(factories)
            while new := {name: one for name, one in pickler.names.items() if name not in names}:
                pickler.dump(new)  # and what it refers to
                names.update(new)
            pickler.dump(None)
            pickler.dump(registrations(functools.partial(_dump, known=names), file.getvalue()))
    finally:
        context.set_spawning_popen(None)
    return Pickled(file.getvalue(), child.fds, names, pickler.modules)


def dumps(value: Any, known: Mapping[str, Any]) -> bytes:
    """Anything else, for ``pickle.loads`` in a process whose ``__main__`` has this under these names.

    Raises:
        TypeError: something cannot be pickled; the message says what.
    """
    file = io.BytesIO()
    _dump(value, file, known)
    return file.getvalue()


def _dump(value: Any, file: io.BytesIO, known: Mapping[str, Any]) -> None:
    main = sys.modules["__main__"]
    with _told("What an env is given is sent to another process", main):
        _Pickler(file, main, known).dump(value)


def load(data: bytes, fds: Sequence[int]) -> Any:
    """What :func:`dump` has made, in a process that gets a ``__main__`` of its own."""
    global _descriptors
    _descriptors = fds
    unpickler = pickle.Unpickler(io.BytesIO(data))
    main = _Main("__main__")
    vars(main).update(unpickler.load(), __builtins__=__builtins__)
    # Processes that multiprocessing starts from here do not run the program again either.
    main.__spec__ = ModuleSpec("__main__", None)
    sys.modules["__main__"] = sys.modules[main.__name__] = main
    factories = unpickler.load()
    while names := unpickler.load():
        vars(main).update(names)
    know(unpickler.load())
    return factories


class _Main(types.ModuleType):
    def __getattr__(self, name: str) -> Any:  # unpickling words it so itself until Python 3.14
        raise AttributeError(f"Can't get attribute {name!r} on {self!r}")

    def __repr__(self) -> str:
        return (
            "<module '__main__' of a worker process. Worker processes do not run your script: move what is "
            "missing to a module, and import it>"
        )


def _of_main(name: str) -> Any:
    return getattr(sys.modules["__main__"], name)


def _namespace() -> dict[str, Any]:
    return vars(sys.modules["__main__"])


class _Namespace(dict[str, Any]):
    """The globals of the program's functions: there, those of the other ``__main__``."""

    def __reduce__(self) -> Any:
        return _namespace, ()


class _Child:
    """The process that is being started, as multiprocessing gives descriptors to it."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(fd)
        return len(self.fds) - 1

    class DupFd:
        """One of them, there."""

        def __init__(self, index: int) -> None:
            self._index = index

        def detach(self) -> int:
            return _descriptors[self._index]


_descriptors: Sequence[int] = ()


class _Pickler(cloudpickle.Pickler):
    """For a process whose ``__main__`` has this already; None: for one that begins, and shall have it.

    Attributes:
        names: what of this program's it has come across.
        modules: names of those that it has come across.
    """

    def __init__(
        self, file: io.BytesIO, main: types.ModuleType, known: Mapping[str, Any] | None = None
    ) -> None:
        self.dispatch_table = ChainMap(
            _OWN_WAYS, cloudpickle.Pickler.dispatch_table, copyreg.dispatch_table, _ways_of_children()
        )
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.names: dict[str, Any] = {}
        self.modules: set[str] = set()
        self._main = main
        self._name_of = {id(one): name for name, one in (known or {}).items()}
        if known is None:
            self.globals_ref = {id(vars(main)): _Namespace(__name__=main.__name__)}

    def reducer_override(self, obj: Any) -> Any:
        if id(obj) in self._name_of:
            return _of_main, (self._name_of[id(obj)],)
        reduced = _by_value(obj, self._main)
        if reduced is NotImplemented:
            reduced = super().reducer_override(obj)
            if isinstance(obj, type) and reduced is not NotImplemented:
                _name_whole(obj, reduced)
        if reduced is NotImplemented or isinstance(obj, types.CodeType | types.ModuleType):
            self.modules.update(modules_named_by(obj))  # which the worker imports
        if reduced is not NotImplemented and (name := _name_in(self._main, obj).partition(".")[0]):
            self.names.setdefault(name, vars(self._main)[name])
        return reduced


def _name_in(module: types.ModuleType | None, obj: Any) -> str:
    """Under which it is found there by those who pickle it by name; empty: it is not."""
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if not isinstance(name, str):
        reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if _is_single(obj, module) else None
        name = reduced if isinstance(reduced, str) else ""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is obj else ""


def _name_whole(kind: type, reduced: Sequence[Any]) -> None:
    """Lets a class within another keep its whole name, which cloudpickle forgets."""
    if "." in kind.__qualname__ and len(reduced) > 2:
        attributes, _ = reduced[2]
        attributes["__qualname__"] = kind.__qualname__


def _is_single(obj: Any, module: types.ModuleType | None) -> bool:
    """Whether its class, of this module, says itself how it is pickled: perhaps by its name."""
    kind: Any = type(obj)
    is_ours = module is not None and kind.__module__ == module.__name__
    return is_ours and (kind.__reduce__, kind.__reduce_ex__) != (object.__reduce__, object.__reduce_ex__)


def _by_value(obj: Any, main: types.ModuleType) -> Any:
    """How something travels that would do so by its name in ``__main__``, or not at all."""
    kind = type(obj)
    if isinstance(obj, synchronize.SemLock) and vars(obj)["_semlock"].name is None:
        raise TypeError(
            f"the {kind.__name__} is of multiprocessing's fork context, for forked processes alone; "
            f"workers share what multiprocessing.get_context('spawn').{kind.__name__}() makes"
        )
    if kind.__name__ == "CloudpickleWrapper" and vars(obj):  # which pickles apart what belongs together
        return object.__new__, (kind,), vars(obj), None, None, become
    if kind.__name__ == "EnvCreator" and kind.__module__.startswith("torchrl."):  # its envs share a state
        _share(obj.state_dict())
    if isinstance(obj, functools._lru_cache_wrapper):  # of a method, say
        module = sys.modules.get(getattr(obj, "__module__", None) or "")
        if module is not main and _name_in(module, obj):
            return NotImplemented
        own = {name: value for name, value in vars(obj).items() if name != "cache_parameters"}
        return _cached, (obj.__wrapped__, obj.cache_parameters()), own
    if _is_single(obj, main):
        reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if isinstance(reduced, str):
            value = (obj.value,) if isinstance(obj, enum.Enum) else None
            return (
                (kind, value) if value else (object.__new__, (kind,), attributes_of(obj), None, None, become)
            )
        return reduced
    return NotImplemented


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


#: Until Python 3.12 it holds a lock.
_OWN_WAYS: dict[type, Callable[[Any], Any]] = {
    functools.cached_property: lambda one: (type(one), (one.func,), {"attrname": one.attrname})
}


def _ways_of_children() -> dict[type, Callable[[Any], Any]]:
    """How multiprocessing sends what its children alone are given; tensors only where they are shared."""
    ways: dict[type, Any] = dict(reduction.ForkingPickler._extra_reducers)  # type: ignore[attr-defined]
    ways.pop(functools.partial, None)  # which keeps more by itself
    for kind, way in ways.items():
        if kind.__module__.partition(".")[0] == "torch":
            ways[kind] = functools.partial(_shared_or_copied, way)
    return ways


def _shared_or_copied(way: Callable[[Any], Any], obj: Any) -> Any:
    storage = getattr(obj, "_untyped_storage", obj)
    try:
        is_shared = storage.device.type == "cpu" and storage.is_shared()
    except (AttributeError, RuntimeError):  # what has no such memory, such as sparse tensors
        is_shared = False
    return way(obj) if is_shared else obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _share(values: Mapping[str, Any]) -> None:
    """Puts tensors, also in what is nested, into memory that processes share."""
    for value in values.values():
        if isinstance(value, Mapping):
            _share(value)
        elif hasattr(value, "share_memory_"):
            value.share_memory_()


@contextlib.contextmanager
def _told(what: str, main: types.ModuleType) -> Iterator[None]:
    """What cannot be pickled, and what to do.

    A program's own module travels by value where multiprocessing has given it another name, too.
    """
    is_renamed = main.__name__ == "__mp_main__"
    if is_renamed:
        cloudpickle.register_pickle_by_value(main)
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(f"{what}, and cannot be pickled: {error}. {_WAY_OUT}") from error
    finally:
        if is_renamed:
            cloudpickle.unregister_pickle_by_value(main)
