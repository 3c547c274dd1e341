from typing import ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import TransformObservation
from torchrl.envs import GymEnv, GymWrapper

from references.reference import Reference

LAKE = ["SFHS", "FFFF", "G FH", "FHFG", "XFFF"]


class ToyText(Reference):
    family = "toy_text"
    entry_point = "gymnasium.envs.toy_text"
    default: ClassVar = ["Blackjack-v1", "CliffWalking-v1", "FrozenLake8x8-v1", "Taxi-v4"]
    default_options: ClassVar = [
        ("FrozenLake-v1", {"map_name": "8x8"}),
        ("Taxi-v4", {"fickle_passenger": True, "fickle_probability": 1.0, "is_rainy": True}),
        ("Blackjack-v1", {"sab": False, "natural": True}),
    ]
    more_options: ClassVar = [
        ("FrozenLake-v1", {"is_slippery": False}),
        ("FrozenLake-v1", {"success_rate": 0.8}),
        ("FrozenLake-v1", {"reward_schedule": [10, -3, -0.1]}),
        ("FrozenLake-v1", {"desc": LAKE}),
        ("FrozenLake8x8-v1", {"desc": ["SG"], "map_name": None, "success_rate": 0.1}),
        ("FrozenLake8x8-v1", {"is_slippery": False, "reward_schedule": (0.5, 0.25, 2)}),
        ("CliffWalking-v1", {"is_slippery": True}),
        ("CliffWalkingSlippery-v1", {"is_slippery": False}),
        ("Taxi-v4", {"is_rainy": True}),
        ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.4}),
        ("Taxi-v4", {"fickle_passenger": True}),
        ("Blackjack-v1", {"sab": False}),
    ]

    seeds: ClassVar = (0, 1, 2)

    def steps(self, task):
        return 400

    def torchrl(self, task, **options):
        """Blackjack with the observation space that stands nearest to its Tuple, which GymEnv cannot read."""
        if task != "Blackjack-v1":
            return GymEnv(task, **options)
        env = gymnasium.make(task)
        space = gymnasium.spaces.MultiDiscrete([part.n for part in env.observation_space])
        return GymWrapper(TransformObservation(env, np.array, space), **options)

    def policy(self, pool, root):
        """Random actions, but mostly those that bring an episode to its own end."""
        action, state = super().policy(pool, root), root["observation"]
        if pool.task.startswith("CliffWalking"):
            up, right, down = (torch.full_like(state, move) for move in range(3))
            wise = torch.where(state % 12 == 11, down, torch.where(state // 12 >= 2, up, right))
            return torch.where(torch.rand(len(state)) < 0.9, wise, action)
        if pool.task == "Taxi-v4":
            stands = torch.tensor([0, 4, 20, 23])
            arrives = (state // 4 % 5 == 4) & (stands[state % 4] == state // 20)
            return torch.where(root["action_mask"][:, 4] == 1, 4, torch.where(arrives, 5, action))
        return action
