"""The parts that a policy is made of, and what calls each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule
from torch import nn
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

from torchrl_pool._collecting.lean_policy.draw import Draw
from torchrl_pool._collecting.lean_policy.greedy import EpsilonGreedy, Greedy
from torchrl_pool._collecting.lean_policy.network import NetworkCall
from torchrl_pool._collecting.lean_policy.recurrent import Recurrent
from torchrl_pool._collecting.lean_policy.tensordict_call import TensorDictCall
from torchrl_pool._collecting.lean_policy.values import NotApart, Step

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
        return _CALLS[kind](module)
    raise NotApart("no fast form of its class is known")


def check_calls(module: nn.Module) -> None:
    """Makes sure that a call of the module is a call of its class's ``forward``, and nothing else.

    Raises:
        NotApart: something would not be called any more.
    """
    shared = nn.modules.module
    if (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or shared._global_forward_hooks
        or shared._global_forward_pre_hooks
    ):
        raise NotApart("it has hooks")
    if module._compiled_call_impl is not None:
        raise NotApart("it is compiled")
    if "forward" in module.__dict__ or type(module).__call__ is not nn.Module.__call__:
        raise NotApart("its forward or __call__ is overridden")
