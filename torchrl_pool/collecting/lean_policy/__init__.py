"""Policies without what TorchRL does around their networks at every call."""

from torchrl_pool.collecting.lean_policy.policy import LeanPolicy, Part, parts_of, take_apart

__all__ = ["LeanPolicy", "Part", "parts_of", "take_apart"]
