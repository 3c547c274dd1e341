"""The charts of the benchmarks, looked at through matplotlib's own objects."""

import pytest
from matplotlib.figure import Figure

from torchrl_pool._bench.contenders import POOL
from torchrl_pool._bench.plot import plot_throughput


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved, as they are on paper."""
    figures = []

    def keep(figure, path, **kwargs):
        figure.draw_without_rendering()
        figures.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def document(rates, num_envs=(1, 8, 64, 256), num_threads=(2,)):
    """What a run measured in which a pool made these steps per second."""
    cells = [
        {
            "task": "CartPole-v1",
            "num_envs": envs,
            "num_threads": threads,
            "seconds_per_step": {POOL: None},
            "steps_per_second": {POOL: rate},
        }
        for threads in num_threads
        for envs, rate in zip(num_envs, rates, strict=True)
    ]
    machine = {"processor": "a processor", "usable_cpus": 2}
    return {"script": "test", "date": "2026-11-22", "machine": machine, "results": cells}


def labels_in_sight(axis):
    low, high = axis.get_view_interval()
    places = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return [label.get_text() for place, label in places if low <= place <= high and label.get_text()]


@pytest.mark.parametrize(
    ("rates", "some_labels"),
    [
        ((2e3, 4e5, 5e6, 7e7), ["10k", "100k", "1M", "10M"]),
        ((1400, 2e4, 5e4, 9e4), ["2k", "5k", "10k", "20k", "50k"]),
        ((3100, 6600, 7100, 6200), ["4k", "5k", "6k", "7k"]),
        ((9100, 9300, 9200, 9500), ["9.2k", "9.4k"]),
        ((5000, 5000, 5000, 5000), []),
    ],
)
def test_rates_of_any_range_have_labels_and_small_ticks(drawn, rates, some_labels):
    plot_throughput(document(rates), "chart.png")
    (axes,) = drawn[0].axes
    labels = labels_in_sight(axes.yaxis)
    assert 3 <= len(labels) <= 12
    assert set(some_labels) <= set(labels)
    low, high = axes.get_ylim()
    assert any(low <= tick <= high for tick in axes.yaxis.get_minorticklocs())
    assert not any(label.get_text() for label in axes.yaxis.get_minorticklabels())


@pytest.mark.parametrize("num_envs", [(1, 8, 64, 256), (3, 4, 7, 1024)])
def test_numbers_of_envs_are_labelled_as_measured(drawn, num_envs):
    plot_throughput(document((1e3, 2e3, 3e3, 4e3), num_envs), "chart.png")
    (axes,) = drawn[0].axes
    assert labels_in_sight(axes.xaxis) == [f"{n:,}" for n in num_envs]
    assert not any(label.get_text() for label in axes.xaxis.get_minorticklabels())


def test_one_measurement_is_a_chart_too(drawn):
    plot_throughput(document((5e3,), num_envs=(1,)), "chart.png")
    (axes,) = drawn[0].axes
    assert labels_in_sight(axes.xaxis) == ["1"]
    assert len(labels_in_sight(axes.yaxis)) >= 3


def test_numbers_of_threads_are_told(drawn):
    plot_throughput(document((1e3, 2e3, 3e3, 4e3), num_threads=(1, 2, 4)), "chart.png")
    assert "random actions, 1, 2 and 4 threads" in drawn[0].get_suptitle()
    assert [axes.get_title() for axes in drawn[0].axes] == [
        f"CartPole-v1, {count}" for count in ("1 thread", "2 threads", "4 threads")
    ]
