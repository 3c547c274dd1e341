"""What networks make of MiniGrid and BabyAI: of the cells that an agent sees, and of its mission."""

from __future__ import annotations

import torch
from torch import nn

KINDS = (11, 6, 4)  # of things, colours and states, which are a cell's three numbers
WORDS = 60  # that mission="words" counts from 1; 0 is none


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
        self.words = nn.Linear(WORDS, 2 * 32)
        self.far = nn.Sequential(nn.Conv2d(32, self.size, 2), nn.ReLU(), nn.Flatten())

    def forward(self, image: torch.Tensor, mission: torch.Tensor) -> torch.Tensor:
        """Takes ``image``: ``[N, 7, 7, 3]``, and ``mission``: ``[N, 50]`` numbers of words."""
        thing, colour, state = image.long().unbind(-1)
        cells = self.cells[(thing * KINDS[1] + colour) * KINDS[2] + state]
        words = cells.new_zeros(len(mission), 1 + WORDS).scatter_(1, mission, 1.0)[:, 1:]
        scale, shift = self.words(words)[..., None, None].chunk(2, 1)
        seen = self.near(cells.movedim(-1, 1))
        features: torch.Tensor = self.far(seen * (1 + scale) + shift)
        return features
