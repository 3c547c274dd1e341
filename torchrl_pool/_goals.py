"""The rewards of tasks with goals, for goals that other steps have reached: hindsight experience replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torchrl_pool._plugins import task_info

_FAMILY = "robotics"


@dataclass(frozen=True)
class GoalReward:
    """What a step is worth towards a goal, float32 ``[..., 1]``. Made by :func:`goal_reward`.

    Attributes:
        threshold: the distance within which a goal is reached, in metres.

    Examples:
        >>> from torchrl_pool import goal_reward
        >>> goal_reward("PointMaze_UMaze-v3").threshold
        0.45
    """

    threshold: float
    _function: Callable[[Any, Any, float], Any]  # of torch or NumPy, and distances

    def __call__(self, achieved_goal: torch.Tensor, desired_goal: torch.Tensor) -> torch.Tensor:
        """The rewards of steps, as the task would have given them.

        Args:
            achieved_goal: ``[..., size]`` of a step's ``"next"``, in any floating-point dtype.
            desired_goal: ``[..., size]``, of a shape that broadcasts with it.

        Returns:
            float32 ``[..., 1]``. Of goals in float64 they are those of the pool in every bit, but for those
            of a dense maze, which ``exp`` may round otherwise.
        """
        squares = (achieved_goal - desired_goal).square().unbind(-1)
        distance = sum(squares[1:], squares[0]).sqrt().unsqueeze(-1)  # in the order of the task's own sum
        rewards: torch.Tensor = self._function(torch, distance, self.threshold)
        return rewards.float()

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any = None) -> Any:
        """The rewards as the method of Gymnasium-Robotics' envs gives them, in every bit.

        Args:
            achieved_goal: an array ``[..., size]``.
            desired_goal: likewise.
            info: has no effect.
        """
        distance = np.linalg.norm(np.subtract(achieved_goal, desired_goal), axis=-1)
        return self._function(np, distance, self.threshold)[()]


def has_goals(task: str) -> bool:
    """Whether :func:`goal_reward` knows the task's rewards."""
    return task_info(task).family == _FAMILY


def goal_reward(task: str, reward_type: str | None = None) -> GoalReward:
    """The reward function of a task with goals, of tensors.

    Hindsight experience replay asks it what steps would have been worth had the goal been another
    (``compute_reward`` of Gymnasium-Robotics).

    Args:
        task: the id, such as ``"FetchReach-v4"`` or ``"PointMaze_UMaze-v3"``.
        reward_type: ``"sparse"`` or ``"dense"``, where the env has that option; None: the task's default.

    Raises:
        ValueError: there is no such task, it has no goals, or another ``reward_type``.

    Examples:
        >>> import torch
        >>> from torchrl_pool import goal_reward
        >>> reward = goal_reward("FetchReach-v4")
        >>> reward(torch.zeros(2, 3), torch.tensor([[0.03, 0.0, 0.0], [0.1, 0.0, 0.0]])).tolist()
        [[-0.0], [-1.0]]
    """
    info = task_info(task)
    if not has_goals(task):
        raise ValueError(f"task: expected one of the family {_FAMILY!r}, which have goals, got {task!r}")
    option = next(option for option in info.options if option.name == "reward_type")
    is_dense = option.check(option.default if reward_type is None else reward_type) == "dense"
    if task.startswith("Fetch"):
        return GoalReward(0.05, _minus if is_dense else _minus_one_outside)
    return GoalReward(0.45, _exp_of_minus if is_dense else _one_inside)


def _minus(of: Any, distance: Any, threshold: float) -> Any:
    return -distance


def _minus_one_outside(of: Any, distance: Any, threshold: float) -> Any:
    return -of.asarray(distance > threshold, dtype=of.float32)


def _exp_of_minus(of: Any, distance: Any, threshold: float) -> Any:
    return of.exp(-distance)


def _one_inside(of: Any, distance: Any, threshold: float) -> Any:
    return of.asarray(distance <= threshold, dtype=of.float64)
