"""What follows collecting, made lean: advantages, updates, and a training's state for checkpoints."""

from torchrl_pool.collecting.collector_state import collector_state, load_collector_state
from torchrl_pool.training.advantages import estimate_advantages
from torchrl_pool.training.distributional_dqn_update import DistributionalDQNUpdate
from torchrl_pool.training.dqn_update import DQNUpdate
from torchrl_pool.training.flat_parameters import flatten_parameters
from torchrl_pool.training.ppo_update import PPOUpdate
from torchrl_pool.training.return_scaling import ReturnScaling
from torchrl_pool.training.sac_update import SACUpdate
from torchrl_pool.training.sequences import minibatches
from torchrl_pool.training.vtrace import estimate_vtrace, vtrace_targets
from torchrl_pool.training.vtrace_update import VTraceUpdate

__all__ = [
    "DQNUpdate",
    "DistributionalDQNUpdate",
    "PPOUpdate",
    "ReturnScaling",
    "SACUpdate",
    "VTraceUpdate",
    "collector_state",
    "estimate_advantages",
    "estimate_vtrace",
    "flatten_parameters",
    "load_collector_state",
    "minibatches",
    "vtrace_targets",
]
