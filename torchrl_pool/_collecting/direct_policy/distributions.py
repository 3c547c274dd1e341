"""Distributions of actions as functions of tensors: drawing in collecting, scoring and entropy in updates.

Each sampler makes the operations that TorchRL's and torch's classes make, in their order and on the
same operands, so that the numbers are the same to the last bit. It leaves out the objects in between. A
density scores actions that were drawn before, with the formulas of the samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import torch
from tensordict.nn import ProbabilisticTensorDictModule
from torch import Tensor
from torch.distributions import Categorical, ComposeTransform, Normal
from torch.nn import functional
from torchrl.modules import IndependentNormal, OneHotCategorical, TanhNormal

from torchrl_pool._collecting.direct_policy.values import Values

Sampler: TypeAlias = Callable[..., "tuple[Tensor, Tensor | None]"]
"""From the parameters, by name, to a sample and its log-probability (None: not asked for)."""

_LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))
_LOG_2 = math.log(2.0)


def sampler_for(
    distribution_class: Any,
    names: Collection[str],
    kwargs: Mapping[str, Any],
    *,
    scored: bool,
    generator: torch.Generator | None = None,
) -> Sampler | None:
    """What draws from a distribution of this class; None where the class itself must.

    A sampler raises :class:`NotSampled`, before it draws, for parameters that need the class.

    Args:
        distribution_class: the class.
        names: of the parameters that each draw gets.
        kwargs: the class's other arguments.
        scored: whether log-probabilities are wanted.
        generator: what it draws with; None: torch's own.
    """
    if distribution_class not in _SAMPLERS:
        return None
    expected, known, make = _SAMPLERS[distribution_class]
    fits = set(names) == expected and kwargs.keys() <= known
    return make(kwargs, scored, generator) if fits else None


class NotSampled(Exception):
    """The distribution's own class must draw."""


def _normal_log_prob(value: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """The logarithm of a normal distribution's density, element by element."""
    return -((value - loc) ** 2) / (2 * scale**2) - scale.log() - _LOG_SQRT_2PI


def _tanh_log_slope(latent: Tensor) -> Tensor:
    """The logarithm of how much the tanh stretches what lies around each element."""
    return 2.0 * (_LOG_2 - latent - functional.softplus(-2.0 * latent))


class _Normal:
    """``Normal`` and ``Independent(Normal)``, by reparameterization.

    Args:
        event_dims: how many trailing dimensions a log-probability is the sum over.
    """

    def __init__(self, event_dims: int, scored: bool, generator: torch.Generator | None) -> None:
        self._event_dims, self._scored, self._generator = event_dims, scored, generator

    def __call__(self, *, loc: Any, scale: Any) -> tuple[Tensor, Tensor | None]:
        sample, density = self.draw(loc, scale)
        return sample, None if density is None else self.total(density)

    def draw(self, loc: Any, scale: Any) -> tuple[Tensor, Tensor | None]:
        """A sample, and the logarithm of its density, element by element."""
        if not (isinstance(loc, Tensor) and isinstance(scale, Tensor)):
            raise NotSampled
        if loc.shape != scale.shape or loc.dtype is not scale.dtype or loc.device != scale.device:
            raise NotSampled
        if loc.ndim < self._event_dims:
            raise NotSampled
        # As torch.normal(0, 1) with tensors of them, which multiplies by one and adds zero.
        noise = torch.empty(loc.shape, dtype=loc.dtype, device=loc.device).normal_(generator=self._generator)
        sample = loc + noise * scale
        if not self._scored:
            return sample, None
        return sample, _normal_log_prob(sample, loc, scale)

    def total(self, per_element: Tensor) -> Tensor:
        dims = self._event_dims
        return per_element if dims == 0 else per_element.flatten(-dims).sum(-1)


class _TanhNormal:
    """``TanhNormal``: scored where it was drawn, before the hyperbolic tangent."""

    def __init__(self, kwargs: Mapping[str, Any], scored: bool, generator: torch.Generator | None) -> None:
        self._kwargs, self._scored, self._generator = kwargs, scored, generator
        self._normal: _Normal | None = None
        self._affine: tuple[Any, Any] | None = None
        self._limit: float | None = None

    def __call__(self, *, loc: Any, scale: Any) -> tuple[Tensor, Tensor | None]:
        normal = self._normal or self._prepared(loc, scale)
        latent, density = normal.draw(loc, scale)
        sample = latent.tanh()
        if self._limit is not None:
            sample = sample.clamp(-self._limit, self._limit)
        if self._affine is not None:
            sample = self._affine[0] + self._affine[1] * sample
        if density is None:
            return sample, None
        slope = _tanh_log_slope(latent)
        if self._affine is not None:
            slope = slope + torch.abs(self._affine[1]).log().expand(slope.shape)
        return sample, normal.total(density) - normal.total(slope)

    def _prepared(self, loc: Any, scale: Any) -> _Normal:
        """Lets the class check its arguments once, and takes its constants from it."""
        if not (isinstance(loc, Tensor) and isinstance(scale, Tensor)):
            raise NotSampled
        made: Any = TanhNormal(loc, scale, **self._kwargs)
        if made.tanh_loc:
            raise NotSampled
        tanh = made._t
        if isinstance(tanh, ComposeTransform):
            affine: Any
            tanh, affine = tanh.parts
            self._affine = affine.loc, affine.scale
        if type(tanh) is not torch.distributions.TanhTransform:  # the safe one
            self._limit = 1.0 - torch.finfo(loc.dtype).resolution
        self._normal = _Normal(made._event_dims, self._scored, self._generator)
        return self._normal


class _Categorical:
    """``Categorical``, and TorchRL's ``OneHotCategorical``."""

    def __init__(self, one_hot: bool, scored: bool, generator: torch.Generator | None) -> None:
        self._one_hot, self._scored, self._generator = one_hot, scored, generator

    def __call__(self, *, logits: Any) -> tuple[Tensor, Tensor | None]:
        if not isinstance(logits, Tensor) or logits.ndim < 2 or not logits.is_floating_point():
            raise NotSampled
        if self._one_hot and logits.shape[-1] == 1:  # which the class takes for a dimension too many
            raise NotSampled
        # As logsumexp, but for what that does for infinite logits, which end in NaN and are refused anyway.
        most = logits.amax(-1, keepdim=True)
        log_probs = logits - (logits - most).exp_().sum(-1, keepdim=True).log_().add_(most)
        probs = functional.softmax(log_probs, dim=-1)
        drawn = _multinomial(probs.detach().flatten(0, -2), self._generator)
        index = drawn.reshape(*logits.shape[:-1], 1)
        if self._one_hot:
            sample = torch.zeros_like(logits, dtype=torch.int64).scatter_(-1, index, 1)
        else:
            sample = index.squeeze(-1)
        return sample, log_probs.gather(-1, index).squeeze(-1) if self._scored else None


def _multinomial(probs: Tensor, generator: torch.Generator | None) -> Tensor:
    """``torch.multinomial(probs, 1)`` of rows that come from a softmax: positive, and one in sum, or NaN.

    Ten of its operations look for other rows. What is left draws the same numbers.
    """
    looks = probs.device.type != "cpu" or torch.compiler.is_compiling()
    if looks or not math.isfinite(probs.sum().item()):
        return torch.multinomial(probs, 1, True, generator=generator)
    noise = torch.empty_like(probs).exponential_(1, generator=generator)
    return torch.div(probs, noise, out=noise).argmax(-1, keepdim=True)


_LOC_SCALE, _LOGITS = {"loc", "scale"}, {"logits"}
# By class: the parameters, the other arguments that do not matter here or are known, and what makes a sampler
# of these, of whether log-probabilities are wanted, and of a generator.
_SAMPLERS: dict[Any, tuple[set[str], set[str], Callable[..., Sampler]]] = {
    Normal: (_LOC_SCALE, set(), lambda kwargs, *how: _Normal(0, *how)),
    IndependentNormal: (
        _LOC_SCALE,
        {"event_dim", "tanh_loc", "upscale"},  # the last two count in update() only
        lambda kwargs, *how: _Normal(kwargs.get("event_dim", 1), *how),
    ),
    TanhNormal: (
        _LOC_SCALE,
        {"upscale", "low", "high", "event_dims", "tanh_loc", "safe_tanh"},
        _TanhNormal,
    ),
    Categorical: (_LOGITS, set(), lambda kwargs, *how: _Categorical(False, *how)),
    OneHotCategorical: (_LOGITS, {"grad_method"}, lambda kwargs, *how: _Categorical(True, *how)),
}


def parameter_names(module: ProbabilisticTensorDictModule) -> list[str]:
    """The parameters of a module's distribution: those from nested entries have the last name of each."""
    return [key[-1] if isinstance(key, tuple) else key for key in module.dist_keys]


# ---- actions that were drawn before


class Density:
    """A distribution of actions, its parameters in a dict.

    Args:
        module: the last module of a :class:`~torchrl.modules.ProbabilisticActor`.
    """

    has_entropy = True

    def __init__(self, module: ProbabilisticTensorDictModule) -> None:
        self.kwargs: dict[str, Any] = dict(module.distribution_kwargs)
        self.keys: dict[str, Any] = dict(zip(parameter_names(module), module.in_keys, strict=True))

    def prepared(self, action: Tensor) -> tuple[Tensor, Tensor | float]:
        """Actions ``[n, …]`` as :meth:`log_prob` takes them, and how much more it gives than the actor.

        What does not depend on the parameters is worked out here, once for all updates with these actions.
        """
        return action, 0.0

    def log_prob(self, tensors: Values, action: Tensor) -> Tensor:
        """The log-probabilities ``[n]`` of prepared actions."""
        raise NotImplementedError

    def entropy(self, tensors: Values) -> Tensor:
        """The entropies ``[n]``."""
        raise NotImplementedError


class NormalDensity(Density):
    """``IndependentNormal``: a normal distribution for each element of an action."""

    def log_prob(self, tensors: Values, action: Tensor) -> Tensor:
        loc, scale = tensors[self.keys["loc"]], tensors[self.keys["scale"]]
        return _normal_log_prob(action, loc, scale).sum(-1)

    def entropy(self, tensors: Values) -> Tensor:
        scale: Tensor = tensors[self.keys["scale"]]
        return (scale.log() + (0.5 + _LOG_SQRT_2PI)).sum(-1)


class TanhNormalDensity(NormalDensity):
    """``TanhNormal``: a normal distribution before a tanh that squeezes it into the action's bounds."""

    has_entropy = False  # TorchRL draws actions to estimate it

    def prepared(self, action: Tensor) -> tuple[Tensor, Tensor | float]:
        middle, half = self._middle_and_half(action)
        limit = 1 - torch.finfo(action.dtype).resolution  # TorchRL's, which keeps the inverse finite
        before = ((action - middle) / half).clamp(-limit, limit).atanh()
        return before, (_tanh_log_slope(before) + half.log()).sum(-1)

    def _middle_and_half(self, like: Tensor) -> tuple[Tensor, Tensor]:
        low, high = (
            torch.as_tensor(self.kwargs.get(name, default)).to(like)
            for name, default in (("low", -1.0), ("high", 1.0))
        )
        return (high + low) / 2, (high - low) / 2


class CategoricalDensity(Density):
    """``Categorical`` and ``OneHotCategorical``."""

    def __init__(self, module: ProbabilisticTensorDictModule) -> None:
        super().__init__(module)
        self.one_hot = module.distribution_class is OneHotCategorical

    def prepared(self, action: Tensor) -> tuple[Tensor, Tensor | float]:
        return (action.to(torch.uint8).argmax(-1) if self.one_hot else action), 0.0

    def log_prob(self, tensors: Values, action: Tensor) -> Tensor:
        logits: Tensor = tensors[self.keys["logits"]].log_softmax(-1)
        return logits.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, tensors: Values) -> Tensor:
        logits: Tensor = tensors[self.keys["logits"]].log_softmax(-1)
        return -(logits.exp() * logits).sum(-1)


def density_of(module: ProbabilisticTensorDictModule) -> Density:
    """What the last module of an actor draws from.

    Raises:
        TypeError: an unsupported distribution, or one that has other parameters or options.
    """
    kind = module.distribution_class
    known: dict[Any, tuple[type[Density], set[str], set[str]]] = {
        IndependentNormal: (NormalDensity, {"loc", "scale"}, {"tanh_loc", "upscale"}),
        TanhNormal: (TanhNormalDensity, {"loc", "scale"}, {"low", "high", "tanh_loc", "upscale"}),
        Categorical: (CategoricalDensity, {"logits"}, set()),
        OneHotCategorical: (CategoricalDensity, {"logits"}, set()),
    }
    if kind in known:
        density, parameters, options = known[kind]
        made = density(module)
        if set(made.keys) == parameters and set(made.kwargs) <= options and not made.kwargs.get("tanh_loc"):
            return made
    names = ", ".join(one.__name__ for one in known)
    raise TypeError(f"expected one of {names}, without further options, got {kind.__name__}")
