"""Envs of one's own from MuJoCo models: the physics in the executor, rewards in torch."""

from torchrl_pool._mujoco.mujoco_pool import MujocoPool

__all__ = ["MujocoPool"]
