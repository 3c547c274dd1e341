"""Policies without what TorchRL does around their networks at every call."""

from torchrl_pool._collecting.direct_policy.exploration import exploring
from torchrl_pool._collecting.direct_policy.networks import NetworkCall, Recurrent
from torchrl_pool._collecting.direct_policy.policy import DirectPolicy, PolicyPart, parts_of, take_apart
from torchrl_pool._collecting.direct_policy.values import Values, read_first

__all__ = [
    "DirectPolicy",
    "NetworkCall",
    "PolicyPart",
    "Recurrent",
    "Values",
    "exploring",
    "parts_of",
    "read_first",
    "take_apart",
]
