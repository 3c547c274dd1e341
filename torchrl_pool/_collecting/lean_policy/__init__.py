"""Policies without what TorchRL does around their networks at every call."""

from torchrl_pool._collecting.lean_policy.exploration import exploring
from torchrl_pool._collecting.lean_policy.networks import NetworkCall, Recurrent
from torchrl_pool._collecting.lean_policy.policy import LeanPolicy, PolicyPart, parts_of, take_apart
from torchrl_pool._collecting.lean_policy.values import Values, read_first

__all__ = [
    "LeanPolicy",
    "NetworkCall",
    "PolicyPart",
    "Recurrent",
    "Values",
    "exploring",
    "parts_of",
    "read_first",
    "take_apart",
]
