"""Rewards divided by the standard deviation of discounted returns, whatever a task's scale is."""

from __future__ import annotations

from typing import Any

import torch


class ReturnScaling:
    """Scales rewards as Gymnasium's ``NormalizeReward`` and Stable-Baselines3's ``VecNormalize`` do.

    A reward is divided by the standard deviation of the discounted sum of rewards so far in its episode, over
    all steps that have been seen. Those wrappers learn from a step before they scale it; this one from a
    whole batch, which costs one pass over it.

    Args:
        num_envs: N.
        gamma: the discount.
        clip: the largest scaled reward, up and down.
        eps: added to the variance.

    Examples:
        >>> scaling = ReturnScaling(num_envs=2, gamma=0.99)
        >>> reward = 5.0 * torch.rand(2, 100, 1)
        >>> scaling(reward, torch.zeros(2, 100, 1, dtype=torch.bool)).max() < 1
        tensor(True)
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0, eps: float = 1e-8) -> None:
        self.gamma, self.clip, self.eps = gamma, clip, eps
        self._returns = torch.zeros(num_envs, dtype=torch.float64)
        self._count, self._mean, self._var = 0, 0.0, 1.0

    def __call__(self, reward: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
        """Learns from rewards ``[N, T, 1]``, and returns them scaled.

        Args:
            reward: floating-point rewards.
            done: bool, of the same shape: whether a step ends its episode.
        """
        going_on = (~done).squeeze(-1).to("cpu", torch.float64).unbind(1)
        rewards = reward.squeeze(-1).to("cpu", torch.float64).unbind(1)
        returns = []
        for one, goes_on in zip(rewards, going_on, strict=True):
            self._returns = torch.add(one, self._returns, alpha=self.gamma)
            returns.append(self._returns)
            self._returns = self._returns * goes_on
        self._learn(torch.stack(returns))
        scaled: torch.Tensor = reward * (self._var + self.eps) ** -0.5
        return scaled.clamp(-self.clip, self.clip)

    def _learn(self, values: torch.Tensor) -> None:
        """Joins the moments of all values so far with those of these (Chan et al. 1979)."""
        new, count = values.numel(), self._count + values.numel()
        mean, var = values.mean().item(), values.var(correction=0).item()
        delta = mean - self._mean
        sum_of_squares = self._var * self._count + var * new + delta**2 * self._count * new / count
        self._mean += delta * new / count
        self._count, self._var = count, sum_of_squares / count

    def state_dict(self) -> dict[str, Any]:
        """The statistics, and the returns of unfinished episodes."""
        moments = {"count": self._count, "mean": self._mean, "var": self._var}
        return {"returns": self._returns.clone(), **moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint.

        Args:
            state: what :meth:`state_dict` returned.
        """
        self._returns = state["returns"].clone()
        self._count, self._mean, self._var = state["count"], state["mean"], state["var"]
