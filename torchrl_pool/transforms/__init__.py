"""TorchRL's transforms, run where the envs run."""

from torchrl_pool.transforms.fused_env import FusedEnv, fuse

__all__ = ["FusedEnv", "fuse"]
