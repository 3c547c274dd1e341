"""TorchRL's transforms, run where the envs run."""

from torchrl_pool._transforms.fused_env import FusedEnv, fuse

__all__ = ["FusedEnv", "fuse"]
