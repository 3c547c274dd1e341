"""Networks of a policy, called with tensors: functions of entries, their layers in turn, memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, is_tensor_collection
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import functional
from torchrl.modules import MLP, GRUModule, LSTMModule

from torchrl_pool._collecting.direct_policy.values import NotApart, Values, new_tensordict, write
from torchrl_pool._env.specs import Key


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


class NetworkCall:
    """``TensorDictModule``: a function of entries."""

    def __init__(self, module: TensorDictModule) -> None:
        if module.inplace is not True:
            raise NotApart(f"inplace={module.inplace!r}")
        # Of functorch; asking tensordict's is_functional for it warns from 0.15 on.
        is_functional = type(module.module).__name__.startswith("FunctionalModule")
        if module._get_kwargs or is_functional:
            raise NotApart("it is functional, or reads entries by get_kwargs")
        self.network: Any = module.module
        self.in_keys: list[Key] = list(module.in_keys)
        self.out_keys: list[Key] = list(module.out_keys_source)
        self.call: Callable[..., Any] = (
            module.module if module.method is None else getattr(module.module, module.method)
        )
        self._strict, self._names, self._kwargs = module.strict, module._kwargs, dict(module.method_kwargs)

    def __call__(self, values: Values) -> None:
        arguments = [values[key] for key in self.in_keys]
        if self._strict and any(argument is None for argument in arguments):
            raise KeyError(f"expected the entries {self.in_keys}, got {arguments}")
        try:
            if self._names is None:
                results = self.call(*arguments, **self._kwargs)
            else:
                named = dict(zip(self._names, arguments, strict=True))
                results = self.call(**{**named, **self._kwargs})
        except Exception as error:
            missing = [key for key, argument in zip(self.in_keys, arguments, strict=True) if argument is None]
            if missing and "None" in str(error):
                raise KeyError(
                    f"expected the entries {missing}, which the policy reads, got {[*values]}"
                ) from error
            error.add_note(f"in the policy's module with in_keys={self.in_keys}, out_keys={self.out_keys}")
            raise
        self._store(values, results)

    def _store(self, values: Values, results: Any) -> None:
        keys = self.out_keys
        if type(results) is Tensor and len(keys) == 1:
            values[keys[0]] = results
            return
        if results is None:
            results = ()
        if (isinstance(results, dict) or is_tensor_collection(results)) and all(
            key in results for key in keys
        ):
            results = tuple(results.get(key) for key in keys)
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(keys):
            raise RuntimeError(f"expected one result for each of out_keys={keys}, got {len(results)}")
        for key, result in zip(keys, results, strict=True):
            values[key] = result if type(result) is Tensor else TensorDict.from_any(result)


def unrolled(network: Any, num_inputs: int) -> Callable[..., Any]:
    """What gives a network's results from ``num_inputs`` tensors; hooks are those of this moment."""
    first, *others = _calls(network, num_inputs)

    def call(*inputs: Any, **kwargs: Any) -> Any:
        result = first(*inputs, **kwargs)
        for layer in others:
            result = layer(result)
        return result

    return call


def _calls(network: Any, num_inputs: int) -> list[Callable[..., Any]]:
    if not isinstance(network, nn.Module):
        return [network]
    try:
        check_calls(network)
    except NotApart:
        return [network]
    forward = type(network).forward
    if forward is nn.Sequential.forward or (_only_calls(network) and num_inputs == 1):
        layers = network._modules.values()  # with one that comes twice, which children() names but once
        return [call for inner in layers for call in _calls(inner, 1)] or [network]
    return [_Linear(network)] if type(network) is nn.Linear and forward is _LINEAR else [network.forward]


_LINEAR = nn.Linear.forward  # which somebody may change


class _Linear:
    """``nn.Linear``, whose weights are found where it keeps them: the search is a third of its time."""

    def __init__(self, module: nn.Module) -> None:
        self._attributes, self._forward = vars(module), module.forward

    def __call__(self, values: Tensor) -> Tensor:
        parameters = self._attributes["_parameters"]
        try:
            weight, bias = parameters["weight"], parameters["bias"]
        except KeyError:  # somebody has put tensors in their place that are no parameters
            return self._forward(values)  # type: ignore[no-any-return]
        return functional.linear(values, weight, bias)


def _only_calls(network: nn.Module) -> bool:
    return type(network).forward is MLP.forward and not network._reshape_out


class TensorDictCall:
    """Calls a module that reads nothing of a tensordict but its shape and the module's ``in_keys``."""

    def __init__(self, module: TensorDictModuleBase) -> None:
        self.in_keys: list[Key] = list(module.in_keys)
        self.out_keys: list[Key] = list(module.out_keys)
        self._module = module

    def __call__(self, values: Values) -> None:
        given = {key: values[key] for key in self.in_keys if values[key] is not None}
        first = next(iter(given.values()))
        tensordict = new_tensordict({}, first.shape[:1], first.device)
        write(tensordict, list(given), list(given.values()))
        result = self._module(tensordict)
        for key in self.out_keys:
            values[key] = result.get(key)


class Recurrent(TensorDictCall):
    """``LSTMModule`` and ``GRUModule``, one step at a time."""

    def __init__(self, module: LSTMModule | GRUModule) -> None:
        super().__init__(module)
        cell = module.lstm if isinstance(module, LSTMModule) else module.gru
        by_steps = type(cell) in (nn.LSTM, nn.GRU) and not module.recurrent_mode
        self.cell: nn.RNNBase | None = cell if by_steps else None

    def __call__(self, values: Values) -> None:
        features, *states, is_init = (values[key] for key in self.in_keys)
        fits = all(type(state) is Tensor and state.ndim == 3 for state in (*states, is_init.unsqueeze(-1)))
        if self.cell is None or not fits or features.ndim != 2:
            super().__call__(values)
            return
        begins = is_init.unsqueeze(-1)
        zero = torch.zeros((), dtype=states[0].dtype, device=states[0].device)
        before = [torch.where(begins, zero, state).transpose(0, 1).contiguous() for state in states]
        output, after = self.cell(features.unsqueeze(1), tuple(before) if len(before) > 1 else before[0])
        after = after if isinstance(after, tuple) else (after,)
        results = output.squeeze(1), *(state.transpose(0, 1) for state in after)
        values.update(zip(self.out_keys, results, strict=True))
