"""Batches of steps for training: a policy and a pool in turn, written once to where they stay."""

from torchrl_pool._collecting.collector import PoolCollector

__all__ = ["PoolCollector"]
