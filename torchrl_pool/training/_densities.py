"""Log-probabilities and entropies of TorchRL's distributions as functions of tensors."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict.nn import ProbabilisticTensorDictModule
from torch import distributions
from torchrl.modules import IndependentNormal, OneHotCategorical, TanhNormal

from torchrl_pool.training._module_calls import Tensors

_LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)


class Density:
    """A distribution of actions, its parameters in a dict.

    Args:
        module: the last module of a :class:`~torchrl.modules.ProbabilisticActor`.
    """

    has_entropy = True

    def __init__(self, module: ProbabilisticTensorDictModule) -> None:
        self.kwargs: dict[str, Any] = dict(module.distribution_kwargs)
        self.keys: dict[Any, Any] = dict(zip(module.dist_keys, module.in_keys, strict=True))

    def prepared(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | float]:
        """Actions ``[n, …]`` as :meth:`log_prob` takes them, and how much more it gives than the actor.

        What does not depend on the parameters is worked out here, once for all updates with these actions.
        """
        return action, 0.0

    def log_prob(self, tensors: Tensors, action: torch.Tensor) -> torch.Tensor:
        """The log-probabilities ``[n]`` of prepared actions."""
        raise NotImplementedError

    def entropy(self, tensors: Tensors) -> torch.Tensor:
        """The entropies ``[n]``."""
        raise NotImplementedError


class NormalDensity(Density):
    """``IndependentNormal``: a normal distribution for each element of an action."""

    def log_prob(self, tensors: Tensors, action: torch.Tensor) -> torch.Tensor:
        loc, scale = tensors[self.keys["loc"]], tensors[self.keys["scale"]]
        standard = (action - loc) / scale
        return -(0.5 * standard * standard + scale.log() + _LOG_SQRT_2_PI).sum(-1)

    def entropy(self, tensors: Tensors) -> torch.Tensor:
        scale = tensors[self.keys["scale"]]
        return (scale.log() + (0.5 + _LOG_SQRT_2_PI)).sum(-1)


class TanhNormalDensity(NormalDensity):
    """``TanhNormal``: a normal distribution before a tanh that squeezes it into the action's bounds."""

    has_entropy = False  # TorchRL draws actions to estimate it

    def prepared(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | float]:
        middle, half = self._middle_and_half(action)
        limit = 1 - torch.finfo(action.dtype).resolution  # TorchRL's, which keeps the inverse finite
        before = ((action - middle) / half).clamp(-limit, limit).atanh()
        return before, self._log_slope(before, half)

    def _middle_and_half(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = (
            torch.as_tensor(self.kwargs.get(name, default)).to(like)
            for name, default in (("low", -1.0), ("high", 1.0))
        )
        return (high + low) / 2, (high - low) / 2

    @staticmethod
    def _log_slope(before: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
        """The logarithm of how much actions spread, by the numbers before the tanh ``[n, …]``."""
        slope = 2 * (math.log(2) - before - torch.nn.functional.softplus(-2 * before)) + half.log()
        return slope.sum(-1)


class CategoricalDensity(Density):
    """``Categorical`` and ``OneHotCategorical``."""

    def __init__(self, module: ProbabilisticTensorDictModule) -> None:
        super().__init__(module)
        self.one_hot = module.distribution_class is OneHotCategorical

    def prepared(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | float]:
        return (action.to(torch.uint8).argmax(-1) if self.one_hot else action), 0.0

    def log_prob(self, tensors: Tensors, action: torch.Tensor) -> torch.Tensor:
        logits = tensors[self.keys["logits"]].log_softmax(-1)
        return logits.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self, tensors: Tensors) -> torch.Tensor:
        logits = tensors[self.keys["logits"]].log_softmax(-1)
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
        distributions.Categorical: (CategoricalDensity, {"logits"}, set()),
        OneHotCategorical: (CategoricalDensity, {"logits"}, set()),
    }
    if kind in known:
        density, parameters, options = known[kind]
        made = density(module)
        if set(made.keys) == parameters and set(made.kwargs) <= options and not made.kwargs.get("tanh_loc"):
            return made
    names = ", ".join(one.__name__ for one in known)
    raise TypeError(f"expected one of {names}, without further options, got {kind.__name__}")
