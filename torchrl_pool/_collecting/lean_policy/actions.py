"""Actions of a policy: drawn from distributions, of highest value, explored, or random."""

from __future__ import annotations

from typing import Any

import torch
from tensordict.nn import CompositeDistribution, InteractionType, ProbabilisticTensorDictModule, probabilistic
from tensordict.nn.probabilistic import _use_generator
from tensordict.utils import expand_as_right
from torch import Tensor
from torch.distributions import Distribution
from torchrl.data import Composite, TensorSpec
from torchrl.envs.utils import ExplorationType, RandomPolicy
from torchrl.modules import EGreedyModule, QValueModule, SafeProbabilisticModule
from torchrl.modules.distributions.utils import sample_and_log_prob

from torchrl_pool._collecting.lean_policy.distributions import NotSampled, sampler_for
from torchrl_pool._collecting.lean_policy.exploration import exploration_type_here
from torchrl_pool._collecting.lean_policy.networks import TensorDictCall
from torchrl_pool._collecting.lean_policy.values import NotApart, Values
from torchrl_pool._env.specs import Key

# From 0.15 on, tensordict's class, too, scores a sample where it was drawn, if the distribution can.
_JOINT_DRAW = getattr(probabilistic, "_get_joint_sample_and_log_prob", None)


class Draw:
    """``ProbabilisticTensorDictModule``: a sample of a distribution, and its log-probability."""

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
        self._module, self._mode, self._generator = module, mode, module._generator
        self.kind = module.distribution_class
        self._kwargs = dict(module.distribution_kwargs.items())
        self._scored = module.return_log_prob
        names = [key[-1] if isinstance(key, tuple) else key for key in module.dist_keys]
        self._parameters: list[tuple[str, Key]] = list(zip(names, module.in_keys, strict=True))
        self.in_keys: list[Key] = list(module.in_keys)
        self.out_keys: list[Key] = list(module._out_keys)
        if self._scored:
            self.out_keys.append(module.log_prob_key)
        at_random = mode is InteractionType.RANDOM
        # TorchRL's class scores a sample where it was drawn; tensordict's, what came out of it.
        self._together = self._scored and at_random and isinstance(module, SafeProbabilisticModule)
        self._joint_draw = _JOINT_DRAW if self._scored and at_random and not self._together else None
        is_scored_there = self._joint_draw is not None and hasattr(self.kind, "rsample_and_log_prob")
        self._sampler = (
            sampler_for(self.kind, names, self._kwargs, scored=self._scored, generator=module._generator)
            if at_random and (self._together or is_scored_there or not self._scored)
            else None
        )

    def __call__(self, values: Values) -> None:
        parameters = {name: values[key] for name, key in self._parameters}
        sample, log_prob = self._drawn(parameters)
        values[self.out_keys[0]] = sample
        if self._scored:
            values[self.out_keys[1]] = log_prob

    def _drawn(self, parameters: dict[str, Any]) -> tuple[Any, Any]:
        if self._sampler is not None:
            try:
                return self._sampler(**parameters)
            except NotSampled:
                self._sampler = None
        distribution = self.kind(**parameters, **self._kwargs)
        if isinstance(distribution, CompositeDistribution) or not isinstance(distribution, Distribution):
            made = type(distribution).__name__
            raise TypeError(f"expected {self.kind} to make a distribution of one tensor, got {made}")
        if self._together:
            with _use_generator(self._generator):
                both: tuple[Any, Any] = sample_and_log_prob(
                    distribution, torch.Size(), reparameterize=distribution.has_rsample
                )
            return both
        if self._joint_draw is not None and (draw := self._joint_draw(distribution)) is not None:
            with _use_generator(self._generator):
                both = draw(torch.Size())
            return both
        sample = self._module._dist_sample(
            distribution, interaction_type=self._mode, generator=self._generator
        )
        return sample, distribution.log_prob(sample) if self._scored else None


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
