"""The pool for callers that speak NumPy: what the vector envs of Gymnasium and of others share."""

from torchrl_pool._arrays.array_pool import ArrayPool

__all__ = ["ArrayPool"]
