"""Advantage estimates, optimizer steps, and a training's state for checkpoints."""

from torchrl_pool._collecting.collector_state import collector_state, load_collector_state
from torchrl_pool.training._advantages import estimate_advantages
from torchrl_pool.training._flat_parameters import flatten_parameters
from torchrl_pool.training._ppo_update import PPOUpdate
from torchrl_pool.training._return_scaling import ReturnScaling
from torchrl_pool.training._sequences import minibatches
from torchrl_pool.training._target_update import TargetUpdate
from torchrl_pool.training._vtrace import estimate_vtrace, vtrace_targets

__all__ = [
    "PPOUpdate",
    "ReturnScaling",
    "TargetUpdate",
    "collector_state",
    "estimate_advantages",
    "estimate_vtrace",
    "flatten_parameters",
    "load_collector_state",
    "minibatches",
    "vtrace_targets",
]
