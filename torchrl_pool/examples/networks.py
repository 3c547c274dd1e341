"""The networks of the training programs: for vectors, pictures, grids with missions; with a memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from tensordict.nn import (
    AddStateIndependentNormalScale,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import nn
from torchrl.data import Categorical as CategoricalSpec
from torchrl.data import MultiCategorical, TensorSpec
from torchrl.envs import EnvBase
from torchrl.modules import GRUModule, IndependentNormal, LSTMModule, ProbabilisticActor, TanhNormal

from torchrl_pool import MISSION_WORDS
from torchrl_pool.examples.envs import pool_of
from torchrl_pool.examples.options import layer_sizes

KINDS = (11, 6, 4)  # of things, colours and states, which are a cell's three numbers (MiniGrid)


class ToFloat(nn.Module):
    """Observations as a network wants them: numbers of states one-hot, pictures in [0, 1].

    Args:
        states: how many values each number of an observation can have; none: it is a picture.
    """

    def __init__(self, states: Sequence[int] = ()) -> None:
        super().__init__()
        self.states = list(states)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        if not self.states:
            # On a CPU, gradients of convolutions take a third less time so; results alone take a tenth more.
            last = torch.is_grad_enabled() and observation.is_cpu and observation.ndim == 4
            layout = torch.channels_last if last else torch.preserve_format
            return observation.to(torch.float32, memory_format=layout) / 255.0
        numbers = [observation] if len(self.states) == 1 else observation.unbind(-1)
        # Unlike torch's one_hot, this looks at no value: a graph can be made of it.
        is_one = [
            one.unsqueeze(-1) == torch.arange(count, device=one.device)
            for one, count in zip(numbers, self.states, strict=True)
        ]
        return torch.cat(is_one, -1).float()


def orthogonal(layer: nn.Module, gain: float) -> nn.Module:
    """Gives a layer orthogonal weights and no bias (Saxe et al. 2014)."""
    nn.init.orthogonal_(layer.weight, gain)  # type: ignore[arg-type]
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def mlp(sizes: Sequence[int], activation: type[nn.Module], last_gain: float) -> nn.Sequential:
    """Linear layers from ``sizes[0]`` inputs to ``sizes[-1]`` outputs, the last one with its own gain."""
    layers: list[nn.Module] = []
    for in_features, out_features in pairwise(sizes[:-1]):
        layers += [orthogonal(nn.Linear(in_features, out_features), 2**0.5), activation()]
    return nn.Sequential(*layers, orthogonal(nn.Linear(sizes[-2], sizes[-1]), last_gain))


def nature_cnn(channels: int, side: int = 84, features: int = 512) -> nn.Sequential:
    """The network of Mnih et al. (2015) for square pictures, up to its hidden layer."""
    cells = (side // 4 - 1) // 2 - 3  # on a side of what the convolutions make
    convolution: Callable[..., nn.Module] = partial(nn.Conv2d)
    return nn.Sequential(
        ToFloat(),
        orthogonal(convolution(channels, 32, 8, stride=4), 2**0.5),
        nn.ReLU(),
        orthogonal(convolution(32, 64, 4, stride=2), 2**0.5),
        nn.ReLU(),
        orthogonal(convolution(64, 64, 3, stride=1), 2**0.5),
        nn.ReLU(),
        nn.Flatten(-3),
        orthogonal(nn.Linear(64 * cells**2, features), 2**0.5),
        nn.ReLU(),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.layers(pictures)
        return pictures + changed


def impala_resnet(channels: int, side: int = 84, features: int = 256) -> nn.Sequential:
    """The deep network of Espeholt et al. (2018) for square pictures, without its LSTM."""
    layers: list[nn.Module] = [ToFloat()]
    for out in (16, 32, 32):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [_Residual(out), _Residual(out)]
        channels = out
    hidden = orthogonal(nn.Linear(32 * math.ceil(side / 8) ** 2, features), 2**0.5)
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(-3), hidden, nn.ReLU())


class GridFeatures(nn.Module):
    """Features ``[N, 64]`` of what agents see and of the missions that they have.

    The convolutions of Willems' rl-starter-files, on cells one-hot, come down to a single one on the way. A
    mission scales and shifts their channels (FiLM, Perez et al. 2018), as in BabyAI's networks; the order of
    its words does not count.

    Example:
        >>> from torchrl_pool import PoolEnv
        >>> root = PoolEnv("BabyAI-GoToLocal-v0", num_envs=2, mission="words").reset()
        >>> GridFeatures()(root["image"], root["mission"]).shape
        torch.Size([2, 64])
    """

    size = 64
    cells: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        # Rows of a table are looked up, which costs less than an embedding's gradient.
        parts = torch.cartesian_prod(*map(torch.arange, KINDS)).unbind(-1)
        one_hot = [nn.functional.one_hot(part, count) for part, count in zip(parts, KINDS, strict=True)]
        self.register_buffer("cells", torch.cat(one_hot, -1).float(), persistent=False)
        self.near = nn.Sequential(
            nn.Conv2d(sum(KINDS), 16, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 2), nn.ReLU()
        )
        self.words = nn.Linear(len(MISSION_WORDS) - 1, 2 * 32)  # the first is none
        self.far = nn.Sequential(nn.Conv2d(32, self.size, 2), nn.ReLU(), nn.Flatten())

    def forward(self, image: torch.Tensor, mission: torch.Tensor) -> torch.Tensor:
        """Takes ``image``: ``[N, 7, 7, 3]``, and ``mission``: ``[N, 50]`` numbers of words."""
        thing, colour, state = image.long().unbind(-1)
        cells = self.cells[(thing * KINDS[1] + colour) * KINDS[2] + state]
        words = cells.new_zeros(len(mission), len(MISSION_WORDS)).scatter_(1, mission, 1.0)[:, 1:]
        scale, shift = self.words(words)[..., None, None].chunk(2, 1)
        seen = self.near(cells.movedim(-1, 1))
        features: torch.Tensor = self.far(seen * (1 + scale) + shift)
        return features


@dataclass(frozen=True)
class Memory:
    """Makes a layer of memory; its states are entries of the data, zero where an episode begins.

    Args:
        cell: ``"lstm"`` or ``"gru"``.
        hidden_size: its units.
    """

    cell: str
    hidden_size: int

    def __call__(self, in_key: str, out_key: str, in_features: int) -> LSTMModule | GRUModule:
        make, states = {
            "lstm": (LSTMModule, ("hidden", "cell")),
            "gru": (GRUModule, ("hidden",)),
        }[self.cell]
        module = make(
            input_size=in_features,
            hidden_size=self.hidden_size,
            in_keys=[in_key, *states],
            out_keys=[out_key, *(("next", state) for state in states)],
        )
        for name, parameter in module.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)
        return module


def actor_and_critic(
    env: EnvBase,
    hidden: str,
    policy: str,
    *,
    memory: Memory | None = None,
    pictures: Callable[[int, int], nn.Sequential] = nature_cnn,
    generator: torch.Generator | None = None,
    scored: bool = True,
) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Actor and critic: each with layers of its own, or two heads on one: for pictures, grids, a memory.

    Args:
        env: what they are for.
        hidden: units of the hidden layers of each, such as ``"64,64"``.
        policy: for continuous actions, ``"normal"`` or ``"tanh-normal"``.
        memory: what remembers the features that hidden layers, or those of a picture, make; None: nothing.
        pictures: makes the network that pictures of so many channels and rows go through, but for heads.
        generator: what actions are drawn with; None: torch's own.
        scored: whether their log-probabilities are written with them. Else they are where that is cheaper
            than another pass through the networks: for discrete actions, pictures, grids and memories.
    """
    pool = pool_of(env)
    actions = pool.action_spec_unbatched
    is_discrete = isinstance(actions, CategoricalSpec)
    out_features = actions.space.n if is_discrete else actions.shape[-1]
    trunk, needs_cast, sizes = trunk_of(env.observation_spec_unbatched, hidden, pictures)
    in_key = "features" if trunk else "observation"
    if memory is not None:
        if len(sizes) > 1:
            layers = nn.Sequential(*needs_cast, *mlp(sizes, nn.Tanh, 2**0.5), nn.Tanh())
            trunk.append(TensorDictModule(layers, [in_key], ["features"]))
        trunk.append(memory("features", "remembered", sizes[-1]))
        in_key, needs_cast, sizes = "remembered", [], [memory.hidden_size]
    policy_network: nn.Module = nn.Sequential(*needs_cast, *mlp([*sizes, out_features], nn.Tanh, 0.01))
    value_network = nn.Sequential(*needs_cast, *mlp([*sizes, 1], nn.Tanh, 1.0))
    parameters = ["logits"]
    draw: dict[str, Any] = {"distribution_class": torch.distributions.Categorical}
    if not is_discrete:
        policy_network = nn.Sequential(
            policy_network, AddStateIndependentNormalScale(out_features, scale_lb=1e-8)
        )
        parameters, draw = ["loc", "scale"], {"distribution_class": IndependentNormal}
        if policy == "tanh-normal":
            bounds = {"low": actions.space.low, "high": actions.space.high}
            draw = {"distribution_class": TanhNormal, "distribution_kwargs": bounds}
    scored = scored or is_discrete or bool(trunk)
    head = TensorDictModule(policy_network, [in_key], parameters)
    actor = ProbabilisticActor(
        TensorDictSequential(*trunk, head) if trunk else head,
        in_keys=parameters,
        return_log_prob=scored,
        generator=generator,
        **draw,
    )
    value = TensorDictModule(value_network, [in_key], ["state_value"])
    return actor, TensorDictSequential(*trunk, value) if trunk else value


def trunk_of(
    observed: TensorSpec, hidden: str, pictures: Callable[[int, int], nn.Sequential]
) -> tuple[list[TensorDictModuleBase], list[nn.Module], list[int]]:
    """What actor and critic share, what each begins with, and the sizes of their layers up to the last.

    What they share writes "features", which they read then; else they read "observation".
    """
    if "mission" in observed.keys():  # noqa: SIM118
        grid = TensorDictModule(GridFeatures(), ["image", "mission"], ["features"])
        return [grid], [], [GridFeatures.size, *layer_sizes(hidden)]
    spec = observed["observation"]
    if is_picture(spec):
        network = pictures(*spec.shape[:2])
        features = network[-2]  # before its activation
        assert isinstance(features, nn.Linear)
        return [TensorDictModule(network, ["observation"], ["features"])], [], [features.out_features]
    needs_cast, size = vectors_of(spec)
    return [], needs_cast, [size, *layer_sizes(hidden)]


class AsVector(nn.Module):
    """Observations of any shape and dtype as vectors of floats.

    Args:
        ndim: how many dimensions an observation has.
    """

    def __init__(self, ndim: int) -> None:
        super().__init__()
        self.ndim = ndim

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return (observation.flatten(-self.ndim) if self.ndim > 1 else observation).float()


def vectors_of(spec: TensorSpec) -> tuple[list[nn.Module], int]:
    """What makes vectors of observations that are no pictures, and how long these are."""
    is_choice = isinstance(spec, CategoricalSpec) and not spec.shape
    if is_choice or isinstance(spec, MultiCategorical):
        states = [box.n for box in getattr(spec.space, "boxes", [spec.space])]
        return [ToFloat(states)], sum(states)
    needs_none = spec.dtype.is_floating_point and len(spec.shape) == 1
    return [] if needs_none else [AsVector(len(spec.shape))], spec.shape.numel()


def is_picture(spec: TensorSpec) -> bool:
    """Whether observations go through convolutions."""
    return spec.dtype is torch.uint8 and len(spec.shape) == 3
