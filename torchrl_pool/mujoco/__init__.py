"""Envs of one's own from MuJoCo models: the physics in the executor, rewards in torch."""

from torchrl_pool.mujoco.mujoco_pool import MujocoPool
from torchrl_pool.mujoco.mujoco_task import MujocoTask

__all__ = ["MujocoPool", "MujocoTask"]
