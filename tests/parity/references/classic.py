from typing import ClassVar

import torch

from references.reference import Reference


class Classic(Reference):
    family = "classic"
    entry_point = "gymnasium.envs.classic_control"
    default: ClassVar = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "Pendulum-v1"]
    default_options: ClassVar = [
        ("CartPole-v0", {"sutton_barto_reward": True}),
        ("MountainCar-v0", {"goal_velocity": 0.04}),
    ]
    more_options: ClassVar = [
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.04}),
        ("Pendulum-v1", {"g": 9.81}),
        ("Pendulum-v1", {"g": 3}),
    ]

    def steps(self, task):
        return 1_000 if task == "MountainCarContinuous-v0" else 510

    def policy(self, pool, root):
        """Random actions; but a mountain car is pushed the way it moves, or it would never reach its goal."""
        action = super().policy(pool, root)
        if not pool.task.startswith("MountainCar"):
            return action
        forward = root["observation"][:, 1] >= 0
        if action.is_floating_point():
            strength = 0.3 + 0.7 * torch.rand(action.shape)
            return torch.where(forward.unsqueeze(-1), strength, -strength)
        return 2 * forward.long()
