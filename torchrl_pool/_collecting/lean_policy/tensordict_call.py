"""A module that is called as it is, with a tensordict of nothing but what it reads."""

from __future__ import annotations

from tensordict.nn import TensorDictModuleBase

from torchrl_pool._collecting.lean_policy.values import NotApart, Values, new_tensordict
from torchrl_pool._env.specs import Key


class TensorDictCall:
    """Calls a module that reads nothing of a tensordict but its shape and the module's ``in_keys``."""

    def __init__(self, module: TensorDictModuleBase) -> None:
        self.in_keys: list[Key] = list(module.in_keys)
        self.out_keys: list[Key] = list(module.out_keys)
        if not all(isinstance(key, str) for key in self.in_keys):
            raise NotApart("it reads nested entries")
        self._module = module

    def __call__(self, values: Values) -> None:
        source = {str(key): values[key] for key in self.in_keys if values[key] is not None}
        first = next(iter(source.values()))
        tensordict = new_tensordict(source, first.shape[:1], first.device)
        result = self._module(tensordict)
        for key in self.out_keys:
            values[key] = result.get(key)
