"""What follows collecting, made lean: advantages, updates, and a training's state for checkpoints."""

from torchrl_pool.training.advantages import estimate_advantages
from torchrl_pool.training.collector_state import collector_state, load_collector_state
from torchrl_pool.training.flat_parameters import flatten_parameters
from torchrl_pool.training.ppo_update import PPOUpdate
from torchrl_pool.training.return_scaling import ReturnScaling

__all__ = [
    "PPOUpdate",
    "ReturnScaling",
    "collector_state",
    "estimate_advantages",
    "flatten_parameters",
    "load_collector_state",
]
