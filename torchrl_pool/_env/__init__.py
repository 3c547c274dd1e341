"""The batch of envs as TorchRL sees it: for all envs at once, for those that are ready, or one by one."""

from torchrl_pool._env.errors import EnvFailure
from torchrl_pool._env.multi_threaded import MultiThreadedEnv
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.single_env import SingleEnv, single_envs

__all__ = ["EnvFailure", "MultiThreadedEnv", "PoolEnv", "SingleEnv", "single_envs"]
