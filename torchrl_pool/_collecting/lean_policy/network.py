"""A network that a TensorDictModule holds, called with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensordict import TensorDict, is_tensor_collection
from tensordict.nn import TensorDictModule
from torch import Tensor

from torchrl_pool._collecting.lean_policy.values import NotApart, Values
from torchrl_pool._env.specs import Key


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
