"""ChainBuilder: what transforms ask for, values and stages, before a chain is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase, Transform

from torchrl_pool import _core
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key, key_of, torch_dtype

NUMBERS = {
    torch.bool: "uint8",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float32: "float32",
    torch.float64: "float64",
}


class NotNative(Exception):
    """A transform stays with TorchRL; the message says why."""


@dataclass(eq=False)
class Value:
    """One env's row of something: a column of the pool, an entry of the root, or what a stage writes."""

    shape: torch.Size
    dtype: torch.dtype
    phase: int = 0  # in which it is there: later ones come after a look at the whole batch
    first_phase: int | None = None  # in which a part of it is written already, if a stage writes it
    at_resets: bool = True  # whether resets write it, too
    pool_column: int | None = None
    carried: int | None = None
    is_learned_from: bool = False
    last_phase: int = 0  # in which somebody reads it

    @property
    def is_read_later(self) -> bool:
        """Whether somebody reads it in a later phase than the first one in which it is written."""
        written = self.phase if self.first_phase is None else self.first_phase
        return self.is_learned_from or self.last_phase > written

    @property
    def size(self) -> int:
        return self.shape.numel()

    @property
    def row_bytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def number(self) -> str:
        """The dtype's name, as stages have it.

        Raises:
            NotNative: they have no such numbers.
        """
        if self.dtype not in NUMBERS:
            raise NotNative(f"it has no native form for {self.dtype}")
        return NUMBERS[self.dtype]


@dataclass(frozen=True)
class Carried:
    """An entry of the root that a step reads."""

    key: Key
    shape: torch.Size  # of all envs' rows
    dtype: torch.dtype
    required: bool
    may_be_next: bool = False  # where the root's "next" has it already, that counts


@dataclass(frozen=True)
class Repeat:
    """How often the pool applies an action in one step, up to the end of the episode."""

    times: int
    reward: Value  # which adds up


@dataclass(frozen=True)
class PlannedStage:
    """A stage to be made once all values have their places."""

    make: Callable[..., Any]
    arguments: Mapping[str, Any]  # Values stand for their indices
    phase: int
    at_steps: bool
    at_resets: bool


# Namespace, name, and what the name stands for; of a list, also what it holds.
Watched: TypeAlias = tuple[Any, Any, Any, list[Any] | None]


def watched_name(namespace: Any, name: Any) -> Watched:
    """A name that has to go on standing for what it now stands for."""
    value = namespace.get(name)
    return namespace, name, value, list(value) if type(value) is list else None


class TensorAddress:
    """Whether a tensor still lies where it lay, and asks for no gradient.

    Sharing one with other processes moves it and frees the memory where it was; so does assigning ``data``.

    Args:
        tensor: the tensor.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self.address = tensor, tensor.data_ptr()

    def get(self, name: str) -> bool:
        del name
        return self._tensor.data_ptr() == self.address and not self._tensor.requires_grad


@dataclass
class ChainBuilder:
    """Everything that the native transforms of a chain have asked for so far."""

    env: PoolEnv
    entries: dict[Key, Value] = field(default_factory=dict)  # of "next", in the order of a tensordict's keys
    carried: list[Carried] = field(default_factory=list)
    carried_values: list[Value] = field(default_factory=list)
    stages: list[PlannedStage] = field(default_factory=list)
    # What must still be there, and the same, for the chain to hold.
    watched: list[Watched] = field(default_factory=list)
    inverse: list[Transform] = field(default_factory=list)  # which change what is handed in, in their order
    kept_alive: list[Any] = field(default_factory=list)
    repeat: Repeat | None = None
    indivisible: str = ""  # why the envs cannot be stepped in groups
    flags: frozenset[Key] = frozenset(("done", "terminated", "truncated"))

    @classmethod
    def of(cls, env: PoolEnv) -> ChainBuilder:
        """What the pool itself writes."""
        builder = cls(env)
        for column, spec in enumerate(env._outputs):
            builder.entries[key_of(spec)] = Value(
                torch.Size(spec.shape),
                torch_dtype(spec),
                at_resets=spec.role != "reward",
                pool_column=column,
            )
        return builder

    def copy(self) -> ChainBuilder:
        """One that can be changed without changing this one's lists."""
        return ChainBuilder(
            self.env,
            dict(self.entries),
            list(self.carried),
            list(self.carried_values),
            list(self.stages),
            list(self.watched),
            list(self.inverse),
            list(self.kept_alive),
            self.repeat,
            self.indivisible,
            self.flags,
        )

    # ---- what a transform's native description says

    def read(self, key: Key) -> Value:
        """An entry of ``"next"``, at the transform's place in the chain."""
        value = self.entries.get(key)
        if value is None:
            raise NotNative(f"the entry {key!r} is not there")
        return value

    def carry(
        self, key: Key, shape: torch.Size, dtype: torch.dtype, *, required: bool, may_be_next: bool = False
    ) -> Value:
        """An entry of the root that a step begins with; ``may_be_next``: of its ``"next"`` if it is there."""
        value = Value(shape, dtype, at_resets=False, carried=len(self.carried))
        whole = torch.Size((self.env.num_envs, *shape))
        self.carried.append(Carried(key, whole, dtype, required, may_be_next))
        self.carried_values.append(value)
        return value

    def write(self, key: Key, value: Value) -> None:
        """Makes a value an entry of ``"next"`` and of the root."""
        if key in self.flags:
            raise NotNative(f"it overwrites the flag {key!r}")
        for one in self.carried:
            if one.key == key and (one.shape[1:], one.dtype) != (value.shape, value.dtype):
                raise NotNative(f"it changes the shape or dtype of {key!r}, which the next step reads")
        earlier = self.entries.get(key)
        if earlier is not None and earlier.at_resets and not value.at_resets:
            raise NotNative(f"it computes {key!r}, which resets give too, from entries that only steps give")
        self.entries[key] = value

    def remove(self, key: Key) -> None:
        """Takes an entry away, if it is there."""
        if key in self.flags:
            raise NotNative(f"it removes the flag {key!r}")
        if any(one.key == key for one in self.carried):
            raise NotNative(f"it removes {key!r}, which the next step reads")
        self.refuse_group(key)
        self.entries.pop(key, None)

    def refuse_group(self, key: Key) -> None:
        """Raises NotNative: the key is that of a tensordict with entries, not of one of them."""
        path = (key,) if isinstance(key, str) else tuple(key)
        if any(
            isinstance(one, tuple) and len(one) > len(path) and one[: len(path)] == path
            for one in self.entries
        ):
            raise NotNative(f"{key!r} is a tensordict of entries")

    def add(
        self,
        make: Callable[..., Any],
        *,
        reads: Sequence[Value],
        writes: Sequence[Value] = (),
        at_steps: bool = True,
        at_resets: bool | None = None,
        learns: bool = False,
        **arguments: Any,
    ) -> None:
        """A stage. It runs at resets where all that it reads is there then, or where ``at_resets`` says so.

        Args:
            make: what makes it, from the arguments.
            reads: the values that it reads ...
            writes: ... and those that it writes.
            at_steps: whether it runs at steps.
            at_resets: whether it runs at resets.
            learns: whether it has to see all rows of what it reads before it runs.
        """
        phase = max((value.phase for value in reads), default=0)
        if learns:
            if any(value.phase > 0 and value.at_resets for value in reads):
                # A reset of some envs changes what the others' latest values are, normalised, too.
                raise NotNative("its input was normalized by another transform")
            phase += 1
            for value in reads:
                value.is_learned_from = True
        if at_resets is None:
            at_resets = all(value.at_resets for value in reads)
        for value in reads:
            value.last_phase = max(value.last_phase, phase)
        for value in writes:
            value.first_phase = phase if value.first_phase is None else min(value.first_phase, phase)
            value.phase, value.at_resets = phase, at_resets
        self.stages.append(PlannedStage(make, arguments, phase, at_steps, at_resets))

    def map(self, key: Key, out_key: Key, make: Callable[..., Any], out: Value, **arguments: Any) -> None:
        """A stage from one entry to another, ``in_`` to ``out``."""
        value = self.read(key)
        self.add(make, reads=[value], writes=[out], in_=value, out=out, size=value.size, **arguments)
        self.write(out_key, out)

    def watch(self, namespace: Any, *names: Any) -> None:
        """The chain holds as long as these names stand for what they now stand for."""
        if type(namespace) is TensorDict and all(isinstance(name, str) for name in names):
            # The dictionary itself answers in a tenth of the time.
            self.watch(vars(namespace), "_tensordict")
            namespace = namespace._tensordict
        for name in names:
            self.watched.append(watched_name(namespace, name))

    def parameter(self, tensor: torch.Tensor | None, row_shape: torch.Size) -> Any:
        """A tensor of the user's, which stages read where it lies."""
        if tensor is None:
            return _core.stages.Parameter()
        if tensor.dtype not in (torch.float32, torch.float64, torch.int64) or not tensor.is_cpu:
            raise NotNative(f"a parameter is {tensor.dtype} on {tensor.device}")
        if (tensor.numel() != 1 and tensor.shape != row_shape) or not tensor.is_contiguous():
            raise NotNative(
                f"a parameter has shape {list(tensor.shape)}: expected one number, or {list(row_shape)}"
            )
        return _core.stages.Parameter(self.address_of(tensor), NUMBERS[tensor.dtype], tensor.numel() == 1)

    def address_of(self, tensor: torch.Tensor) -> int:
        """Where a tensor of the user's lies, for as long as the chain holds."""
        if tensor.requires_grad:
            raise NotNative("its parameters require gradients")
        place = TensorAddress(tensor)
        self.watched.append(watched_name(place, ""))
        self.kept_alive.append(tensor)
        return place.address

    # ---- the result

    def fits(self, specs: EnvBase) -> str | None:
        """Why the entries are not what the specs of an env say; None where they are."""
        expected = {**dict(specs.full_observation_spec.items(True, True))}
        expected.update(specs.full_reward_spec.items(True, True))
        expected.update(specs.full_done_spec.items(True, True))
        rewards = set(specs.full_reward_spec.keys(True, True))
        if missing := [key for key in expected if key not in self.entries]:
            return f"its specs have {missing[0]!r}, which is not written"
        for key, value in self.entries.items():
            spec = expected.get(key)
            if spec is None:
                return f"it writes {key!r}, which its specs lack"
            shape = torch.Size((self.env.num_envs, *value.shape))
            if spec.shape != shape or spec.dtype != value.dtype:
                expected_row = f"{spec.dtype} {list(spec.shape)}"
                return f"it writes {key!r} as {value.dtype} {list(shape)}, its specs say {expected_row}"
            if (key in rewards) == value.at_resets:
                return f"{key!r} is {'an' if key in rewards else 'no'} entry of the reward spec"
        return None
