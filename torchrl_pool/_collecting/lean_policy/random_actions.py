"""Random actions."""

from __future__ import annotations

from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import RandomPolicy

from torchrl_pool._collecting.lean_policy.values import NotApart, Values
from torchrl_pool._env.specs import Key


class RandomActions:
    """``RandomPolicy``: a draw from the spec of each action."""

    in_keys: tuple[Key, ...] = ()

    def __init__(self, policy: RandomPolicy) -> None:
        spec = policy.action_spec
        if not isinstance(spec, Composite) or spec.data_cls is not None:
            raise NotApart("it has no specs by name")
        self._specs: dict[Key, TensorSpec] = {
            key: leaf for key, leaf in spec.items(True, True) if leaf is not None
        }
        self.out_keys: list[Key] = list(self._specs)

    def __call__(self, values: Values) -> None:
        for key, spec in self._specs.items():
            values[key] = spec.rand()
