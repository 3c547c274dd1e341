"""Actions drawn from a distribution whose parameters are entries."""

from __future__ import annotations

from typing import Any

import torch
from tensordict.nn import (
    CompositeDistribution,
    InteractionType,
    ProbabilisticTensorDictModule,
    probabilistic,
)
from tensordict.nn.probabilistic import _use_generator
from torch.distributions import Distribution
from torchrl.modules import SafeProbabilisticModule
from torchrl.modules.distributions.utils import sample_and_log_prob

from torchrl_pool._collecting.lean_policy.distributions import NotSampled, sampler_for
from torchrl_pool._collecting.lean_policy.exploration import exploration_type_here
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
        self._class = module.distribution_class
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
        is_scored_there = self._joint_draw is not None and hasattr(self._class, "rsample_and_log_prob")
        self._sampler = (
            sampler_for(self._class, names, self._kwargs, scored=self._scored, generator=module._generator)
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
        distribution = self._class(**parameters, **self._kwargs)
        if isinstance(distribution, CompositeDistribution) or not isinstance(distribution, Distribution):
            made = type(distribution).__name__
            raise TypeError(f"expected {self._class} to make a distribution of one tensor, got {made}")
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
