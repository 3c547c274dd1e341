"""Operations of a first call serve later calls only where they mean the same."""

import pytest
import torch
from cases import cases

from torchrl_pool.training._traced_once import TracedOnce


def _function(left, right, indices):
    return (left * right).index_select(0, indices).reshape(-1).cumsum(0), left.sum()


LATER = {
    "another dtype": lambda left, right, indices: (left.double(), right.double(), indices),
    "one of another dtype": lambda left, right, indices: (left, right.double(), indices),
    "integers": lambda left, right, indices: ((9 * left).long(), (9 * right).long(), indices),
    "short indices": lambda left, right, indices: (left, right, indices.int()),
    "transposed": lambda left, right, indices: (left.t().contiguous().t(), right, indices),
    "expanded": lambda left, right, indices: (left[:1].expand(8, 6), right, indices),
    "every second index": lambda left, right, indices: (left, right, torch.arange(6)[::2]),
    "fewer indices": lambda left, right, indices: (left, right, indices[:2]),
    "the same": lambda left, right, indices: (left, right, indices),
}


@pytest.mark.parametrize("compile", cases([False, True]))
def test_inputs_of_another_layout_are_worked_out_anew(compile):
    first = torch.rand(8, 6), torch.rand(8, 6), torch.tensor([1, 3, 5])
    traced = TracedOnce(_function, compile=compile)
    traced(*first)
    for name, later in LATER.items():
        for found, expected in zip(traced(*later(*first)), _function(*later(*first)), strict=True):
            torch.testing.assert_close(found, expected, msg=lambda text, name=name: f"{name}: {text}")


def test_no_toolkit_is_needed_for_a_device(monkeypatch):
    """C++ that calls a GPU's kernels is compiled with headers that torch's wheels lack."""
    asked = []
    monkeypatch.setattr(torch, "compile", lambda traced, **how: asked.append(how["options"]) or traced)
    for device in ("cpu", "meta"):
        TracedOnce(lambda one: one * 2, compile=True)(torch.ones(3, device=device))
    assert [options["cpp_wrapper"] for options in asked] == [True, False]
