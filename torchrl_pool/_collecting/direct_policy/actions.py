"""Actions of a policy: drawn from distributions, of highest value, explored, or random."""

from __future__ import annotations

import torch
from tensordict.nn import CompositeDistribution, ProbabilisticTensorDictModule
from tensordict.utils import expand_as_right
from torch import Tensor
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import ExplorationType, RandomPolicy
from torchrl.modules import EGreedyModule, QValueModule, SafeProbabilisticModule

from torchrl_pool._collecting.direct_policy.distributions import (
    NotSampled,
    Sampler,
    parameter_names,
    sampler_for,
)
from torchrl_pool._collecting.direct_policy.exploration import exploration_type_here, exploring
from torchrl_pool._collecting.direct_policy.networks import TensorDictCall
from torchrl_pool._collecting.direct_policy.values import NotApart, Values
from torchrl_pool._env.specs import Key


class Draw(TensorDictCall):
    """``ProbabilisticTensorDictModule``: a sample of a distribution, and its log-probability.

    Samples of most people's distributions are drawn without an object of the class; the module draws the
    others, and modes.
    """

    def __init__(self, module: ProbabilisticTensorDictModule, requires_sample: bool) -> None:
        if not requires_sample:
            raise NotApart("a module before it has sampled already")
        if module.num_samples is not None:
            raise NotApart("it draws several samples (num_samples)")
        if module._generator_key is not None:
            raise NotApart("its generator is an entry")
        if len(module._out_keys) != 1 or module.distribution_class is CompositeDistribution:
            raise NotApart("it draws several entries")
        mode = exploration_type_here()
        if mode is None:
            raise NotApart("no exploration type is set")
        super().__init__(module)
        self.in_keys = list(module.in_keys)
        self.out_keys = list(module._out_keys)
        if module.return_log_prob:
            self.out_keys.append(module.log_prob_key)
        self._mode = mode
        names = parameter_names(module)
        self._parameters: list[tuple[str, Key]] = list(zip(names, module.in_keys, strict=True))
        self._sampler: Sampler | None = None
        # tensordict's own class scores a sample after it was drawn, which gives other last bits.
        scores_where_it_draws = isinstance(module, SafeProbabilisticModule) or not module.return_log_prob
        if mode is ExplorationType.RANDOM and scores_where_it_draws:
            self._sampler = sampler_for(
                module.distribution_class,
                names,
                dict(module.distribution_kwargs.items()),
                scored=module.return_log_prob,
                generator=module._generator,
            )

    def __call__(self, values: Values) -> None:
        if self._sampler is not None:
            try:
                sample, log_prob = self._sampler(**{name: values[key] for name, key in self._parameters})
            except NotSampled:
                self._sampler = None
            else:
                values.update(zip(self.out_keys, (sample, log_prob), strict=False))
                return
        with exploring(self._mode):
            super().__call__(values)


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


class RandomChoice:
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
