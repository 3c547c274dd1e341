"""The actions of highest value, and random ones in some of their places."""

from __future__ import annotations

import torch
from tensordict.utils import expand_as_right
from torch import Tensor
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import ExplorationType
from torchrl.modules import EGreedyModule, QValueModule

from torchrl_pool._collecting.lean_policy.exploration import exploration_type_here
from torchrl_pool._collecting.lean_policy.tensordict_call import TensorDictCall
from torchrl_pool._collecting.lean_policy.values import NotApart, Values


class Greedy(TensorDictCall):
    """``QValueModule``: the action of highest value, the values, and the action's."""

    def __init__(self, module: QValueModule) -> None:
        super().__init__(module)
        if not isinstance(module.out_keys[0], str):
            raise NotApart("its action is a nested entry")
        spec = module.spec.get(module.out_keys[0], None)
        self._row: torch.Size | None = None  # the shape of an action, if it is known
        if spec is not None and module.strict_shape is not False:
            self._row = spec.shape[len(module.spec.shape) :]
        space = module.action_space
        self._choose = None if module.action_mask_key is not None else module.action_func_mapping[space]
        self._value_of = module.action_value_func_mapping.get(space, module._default_action_value)

    def __call__(self, values: Values) -> None:
        action_values = values[self.in_keys[0]]
        if self._choose is None or type(action_values) is not Tensor:
            super().__call__(values)
            return
        action = self._choose(action_values)
        if self._row is not None and action.shape != action_values.shape[:-1] + self._row:
            super().__call__(values)  # which makes it fit, or says that it does not
            return
        results = action, action_values, self._value_of(action_values, action)
        values.update(zip(self.out_keys, results, strict=True))


class EpsilonGreedy(TensorDictCall):
    """``EGreedyModule``: random actions where a draw falls below epsilon."""

    def __init__(self, module: EGreedyModule) -> None:
        super().__init__(module)
        self._greedy = module
        self._explores = exploration_type_here() in (ExplorationType.RANDOM, None)
        # What random actions are drawn from, by the spec that the module holds and the shape of the actions.
        self._drawn_from: dict[tuple[int, torch.Size], TensorSpec] = {}

    def __call__(self, values: Values) -> None:
        module = self._greedy
        if not self._explores:
            return
        action = values[self.in_keys[0]]
        spec = module.spec
        if type(action) is not Tensor or spec is None or module.action_mask_key is not None:
            super().__call__(values)
            return
        known = id(spec), action.shape
        if known not in self._drawn_from:
            if action.device != module.eps.device:
                super().__call__(values)  # which says so
                return
            found = spec[module.action_key] if isinstance(spec, Composite) else spec
            self._drawn_from[known] = found if found.shape == action.shape else found.expand(action.shape)
        explored = torch.rand(action.shape[:1], device=action.device) < module.eps
        random = self._drawn_from[known].rand()
        values[self.out_keys[0]] = torch.where(expand_as_right(explored, action), random, action)
