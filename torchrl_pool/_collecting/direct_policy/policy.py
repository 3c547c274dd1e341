"""A policy of TensorDictModules, taken apart into calls from tensors to tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from tensordict.nn.utils import skip_existing
from torch import nn
from torchrl._utils import compile_with_warmup
from torchrl.envs.utils import RandomPolicy
from torchrl.modules import (
    AdditiveGaussianModule,
    DistributionalQValueModule,
    EGreedyModule,
    GRUModule,
    LSTMModule,
    OrnsteinUhlenbeckProcessModule,
    QValueModule,
    SafeProbabilisticModule,
    TanhModule,
)

from torchrl_pool._collecting.direct_policy.actions import Draw, EpsilonGreedy, Greedy, RandomChoice
from torchrl_pool._collecting.direct_policy.networks import (
    NetworkCall,
    Recurrent,
    TensorDictCall,
    check_calls,
    unrolled,
)
from torchrl_pool._collecting.direct_policy.values import NotApart, Step, Values, read, read_first, write
from torchrl_pool._env.specs import Key

_CALLS: dict[type, Callable[[Any], Step]] = {
    QValueModule: Greedy,
    EGreedyModule: EpsilonGreedy,
    LSTMModule: Recurrent,
    GRUModule: Recurrent,
    AdditiveGaussianModule: TensorDictCall,
    DistributionalQValueModule: TensorDictCall,
    OrnsteinUhlenbeckProcessModule: TensorDictCall,
    TanhModule: TensorDictCall,
}


def step_of(module: nn.Module, *, requires_sample: bool = True) -> Step:
    """What calls a module that holds no others of its kind.

    Raises:
        NotApart: a module that must get the whole tensordict.
    """
    check_calls(module)
    kind = type(module)
    if isinstance(module, TensorDictModule) and kind.forward is TensorDictModule.forward:
        return NetworkCall(module)
    if kind in (ProbabilisticTensorDictModule, SafeProbabilisticModule):
        assert isinstance(module, ProbabilisticTensorDictModule)
        return Draw(module, requires_sample)
    if kind in _CALLS:
        # Beside a nested entry lies another tensordict, whose shape such modules may ask for.
        if any(isinstance(key, tuple) for key in getattr(module, "in_keys", ())):
            raise NotApart("it reads nested entries")
        return _CALLS[kind](module)
    raise NotApart("no fast form of its class is known")


_SEQUENCES = (TensorDictSequential.forward, ProbabilisticTensorDictSequential.forward)


class PolicyPart(NamedTuple):
    """A module of a policy that holds no others of its kind, and how it is called."""

    name: str
    """The module's class."""
    step: Step | None
    why_not: str = ""
    """Why it has no step of its own."""


class DirectPolicy:
    """Calls the parts of a policy one after the other and sets what they compute: no more than that.

    Results are those of the policy, bit for bit, from the same state of torch's generator. Parameters and
    modes are the modules'; exploration type, hooks and arguments of distributions are those of the moment at
    which the policy was taken apart.

    Args:
        parts: in the order of the calls; each has a step.
    """

    def __init__(self, parts: Sequence[PolicyPart]) -> None:
        self._steps = [part.step for part in parts if part.step is not None]
        for step in self._steps:
            if isinstance(step, NetworkCall):
                step.call = unrolled(step.call, len(step.in_keys))
        # In the order in which the policy sets them.
        written: dict[Key, None] = dict.fromkeys(key for step in self._steps for key in step.out_keys)
        written.pop("_", None)
        self.in_keys, self.out_keys = tuple(read_first(self._steps)), tuple(written)
        self.call: Callable[..., Sequence[Any]] = self.compute
        """What the policy sets, in the order of ``out_keys``, from what it reads, in that of ``in_keys``."""
        self.overwrites = frozenset(written).difference(self.in_keys)
        """The entries that a call sets whatever they were."""

    def compute(self, *inputs: Any) -> tuple[Any, ...]:
        """As :attr:`call`, not compiled."""
        values: Values = dict(zip(self.in_keys, inputs, strict=True))
        for step in self._steps:
            step(values)
        return tuple(values[key] for key in self.out_keys)

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.write(tensordict, self.call(*read(tensordict, self.in_keys)))
        return tensordict

    def write(self, tensordict: TensorDictBase, outputs: Sequence[Any]) -> None:
        """Sets what a call has given."""
        write(tensordict, self.out_keys, outputs)

    def compile(self, **kwargs: Any) -> DirectPolicy:
        """Lets torch compile :meth:`compute`; the arguments are those of ``compile_policy``."""
        compiled = compile_with_warmup(self.compute, **kwargs)

        def call(*inputs: Any) -> list[Any]:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            # On a GPU the next call may write into the same memory.
            return [value.clone() if value.is_cuda else value for value in compiled(*inputs)]

        self.call = call
        return self


def take_apart(policy: Any) -> DirectPolicy | None:
    """What gives a policy's results with less around them; None where the policy itself must be called."""
    parts = parts_of(policy)
    return DirectPolicy(parts) if all(part.step is not None for part in parts) else None


def parts_of(policy: Any) -> list[PolicyPart]:
    """The modules that a policy calls one after the other."""
    if type(policy) is RandomPolicy:
        return [_part(policy, RandomChoice)]
    if not isinstance(policy, nn.Module):
        return [PolicyPart(type(policy).__name__, None, "it is no torch.nn.Module")]
    if skip_existing():
        return [PolicyPart(type(policy).__name__, None, "set_skip_existing asks for what a tensordict holds")]
    return list(_parts(policy, requires_sample=True))


def _parts(module: nn.Module, *, requires_sample: bool) -> Iterator[PolicyPart]:
    if isinstance(module, TensorDictSequential) and type(module).forward in _SEQUENCES:
        try:
            inner = _inner_modules(module)
        except NotApart as why:
            yield PolicyPart(type(module).__name__, None, str(why))
            return
        for one, asked in inner:
            yield from _parts(one, requires_sample=asked)
        return
    yield _part(module, lambda module: step_of(module, requires_sample=requires_sample))


def _part(module: Any, make_step: Callable[[Any], Step]) -> PolicyPart:
    try:
        return PolicyPart(type(module).__name__, make_step(module))
    except NotApart as why:
        return PolicyPart(type(module).__name__, None, str(why))


def _inner_modules(module: TensorDictSequential) -> list[tuple[nn.Module, bool]]:
    """What a sequence calls, and whether it asks it for a sample.

    Raises:
        NotApart: a sequence that does more than calling them.
    """
    check_calls(module)
    if module.partial_tolerant or module._select_before_return or module.inplace not in (None, True):
        raise NotApart("partial_tolerant, selected_out_keys or inplace")
    if not isinstance(module, ProbabilisticTensorDictSequential):
        return [(inner, True) for inner in module._module_iter()]
    if module.return_composite:
        return [(inner, module._requires_sample) for inner in module._module_iter()]
    *before, last = module._module_iter()
    return [*((inner, True) for inner in before), (last, module._requires_sample)]
