"""What several seeds tell together."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from torchrl_pool.examples.results import described, interquartile_mean, interval, plot_curves, summary


def test_the_mean_of_the_middle_half():
    assert interquartile_mean([0.0, 4.0, 6.0, 1000.0]) == 5
    assert interquartile_mean([1.0, 2.0, 6.0]) == 3  # nothing is left out


def test_an_interval_holds_the_mean_and_is_the_same_each_time():
    values = np.random.default_rng(1).normal([0, 10, 20], size=(8, 3))
    low, high = interval(values)
    assert low.shape == (3,)
    assert (low < interquartile_mean(values)).all()
    assert (interquartile_mean(values) < high).all()
    assert all(np.array_equal(a, b) for a, b in zip(interval(values), (low, high), strict=True))


def test_equal_seeds_have_no_spread():
    assert described([5.0, 5.0]) == "interquartile mean 5.0, 95 % interval 5.0 to 5.0"
    assert described([5.0]) == "5.0"


def test_summary():
    found = summary({3: [1.0, 3.0], 4: [4.0, 4.0]})
    assert found["means"] == [2.0, 4.0]
    assert found["interquartile_mean"] == 3.0
    assert found["interval"] == [2.0, 4.0]


def test_curves_before_each_seed_has_ended_an_episode(tmp_path):
    rows = [[{"frames": 16.0, "return": value}, {"frames": 32.0, "return": 2.0}] for value in (np.nan, 1.0)]
    plot_curves(rows, "title", tmp_path / "one.png")
    plot_curves([run[:1] for run in rows], "title", tmp_path / "none.png")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
