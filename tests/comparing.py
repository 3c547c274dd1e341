"""Comparisons to the last bit."""

from collections.abc import Mapping

import numpy as np
import torch
from tensordict import TensorDictBase


def same(a, b):
    """Whether two tensors are equal, a NaN to itself."""
    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        return False
    if not a.is_floating_point():  # torch compares few unsigned integers
        return np.array_equal(a.cpu().numpy(), b.cpu().numpy())
    return torch.equal(a, b) or bool(((a == b) | (a.isnan() & b.isnan())).all())


def differing_keys(a, b):
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    return [key for key in a.keys(True, True) if not same(a[key], b[key])]


def assert_same(actual, expected, what="results"):
    """Tensordicts, mappings, sequences, arrays and numbers: equal in form, dtypes, shapes and values."""
    if isinstance(expected, TensorDictBase):
        assert actual.batch_size == expected.batch_size, what
        actual, expected = (dict(one.items(True, True)) for one in (actual, expected))
    if isinstance(expected, Mapping):
        assert set(actual) == set(expected), what
        for key, value in expected.items():
            assert_same(actual[key], value, f"{what}, {key!r}")
    elif isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected), what
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_same(one, other, f"{what}[{i}]")
    elif not isinstance(expected, (torch.Tensor, np.ndarray, np.generic, bool, int, float)):
        assert actual == expected, what
    else:
        actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
        assert same(actual, expected), f"{what}: {actual} != {expected}"


def assert_holds(ours, theirs):
    """All tensors of the second tensordict are in the first one."""
    entries = [
        {key: value for key, value in data.items(True, True) if isinstance(value, torch.Tensor)}
        for data in (ours, theirs)
    ]
    assert set(entries[1]) <= set(entries[0])
    for key, value in entries[1].items():
        assert same(entries[0][key], value), key


def assert_steps_equal(pool, reference, steps, assert_same=assert_same):
    """Steps a pool and TorchRL's own batched env with the same random actions.

    Args:
        pool, reference: not reset yet, and of the same specs and seeds.
        assert_same: how one entry is compared: takes the pool's, the reference's, and what to call it.

    Returns:
        How many episodes ended.
    """
    actual, expected = pool.reset(), reference.reset()
    episodes = 0
    for t in range(steps):
        for key in reference.observation_keys + reference.done_keys:
            assert_same(actual[key], expected[key], f"{key} before step {t}")
        pool.rand_action(actual)
        expected.update(actual.select(*pool.action_keys).clone())
        actual, actual_root = pool.step_and_maybe_reset(actual)
        expected, expected_root = reference.step_and_maybe_reset(expected)
        assert set(actual.keys(True, True)) == set(expected.keys(True, True))
        for key in actual["next"].keys(True, True):
            assert_same(actual["next"][key], expected["next"][key], f"next {key} of step {t}")
        episodes += int(actual["next", "done"].sum())
        actual, expected = actual_root, expected_root
    return episodes


def assert_holds_steps(pool, reference, steps, seed=3):
    """Steps both, seeded alike, with the pool's random actions; the pool may show more than the reference."""
    assert pool.set_seed(seed) == reference.set_seed(seed)
    torch.manual_seed(0)
    root, expected = pool.reset(), reference.reset()
    assert_holds(root, expected)
    for _ in range(steps):
        actions = pool.full_action_spec.rand()
        data, root = pool.step_and_maybe_reset(root.update(actions))
        theirs, expected = reference.step_and_maybe_reset(expected.update(actions))
        assert_holds(data["next"], theirs["next"])
        # What becomes of old actions differs.
        assert_holds(root, expected.exclude(*reference.action_keys))
