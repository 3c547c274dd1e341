"""Calls of envs in flight."""

import contextlib

import pytest
import torch

from torchrl_pool import _core

KINDS = ("step", "step_and_maybe_reset", "reset")


def calls_of(pool, kind):
    """What sends envs to do this, and what receives them."""
    return getattr(pool, f"async_{kind}_send"), getattr(pool, f"async_{kind}_recv")


def sleeper(make_pool, seconds, **kwargs):
    """A pool with a thread for each of its envs, whose steps take so long."""
    options = [{"sleep": s} for s in seconds]
    return make_pool("Fault-v0", len(seconds), env_options=options, num_threads=3, **kwargs)


@contextlib.contextmanager
def without_memory(pool, error):
    """Memory for what is received raises this, once the results are there."""

    def fail(num_rows):
        raise error

    keys = list(pool._stepper.step_prototypes)
    memory = _core.TensorMemory(
        tensor_type=torch.Tensor,
        from_dlpack=None,
        keys=keys,
        tensors=[([1], "float32")] * len(keys),
        positions=range(len(keys)),
        fixed=[(0, 0)] * len(keys),
        make=fail,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool._stepper, "calls", _core.Calls(out=memory, root=memory, numbers=memory))
        yield
