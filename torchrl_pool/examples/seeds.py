"""Learning curves as pictures, and what several seeds tell together (Agarwal et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torchrl_pool.examples import say_what_is_missing
from torchrl_pool.examples.results import WINDOW, Row

try:
    from matplotlib.figure import Figure
    from scipy import stats
except ImportError as error:
    say_what_is_missing(error)

CONFIDENCE = 0.95  # that the interval has


def interquartile_mean(values: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """The mean without the lowest and the highest quarter, of fewer than four values their mean."""
    mean: NDArray[np.float64] = stats.trim_mean(values, 0.25, axis=axis)
    return mean


def interval(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the interquartile mean of other seeds would be, with a confidence of 95 %: lower and upper end.

    Seeds, the first axis of the values, are drawn with replacement, always the same draws: equal values have
    equal intervals.
    """
    how: dict[str, Any] = {"n_resamples": 2000, "batch": 100, "method": "percentile"}
    draws = np.random.default_rng(0)
    found = stats.bootstrap((values,), interquartile_mean, confidence_level=CONFIDENCE, rng=draws, **how)
    return found.confidence_interval.low, found.confidence_interval.high


def described(values: Sequence[float]) -> str:
    """Interquartile mean and interval as text."""
    if len(values) < 2:
        return f"{fmean(values):.1f}"
    low, high = interval(values)
    return f"interquartile mean {interquartile_mean(values):.1f}, 95 % interval {low:.1f} to {high:.1f}"


def summary(returns: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """The evaluations of several seeds, each the returns of its episodes: the file beside their folders."""
    means = [fmean(one) for one in returns.values()]
    low, high = interval(means)
    return {
        "returns": {str(seed): list(one) for seed, one in returns.items()},
        "means": means,
        "interquartile_mean": float(interquartile_mean(means)),
        "interval": [float(low), float(high)],
        "confidence": CONFIDENCE,
    }


def plot_curves(runs: Sequence[Sequence[Row]], title: str, path: Path) -> None:
    """Draws return by frames: one run, or several with their interquartile mean and its interval."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")  # without pyplot: needs no display
    axes = figure.add_subplot()
    several = len(runs) > 1
    width, alpha = (1, 0.4) if several else (2, 1)
    for rows in runs:
        frames, returns = [row["frames"] for row in rows], [row["return"] for row in rows]
        axes.plot(frames, returns, color="tab:blue", linewidth=width, alpha=alpha)
    if several:
        steps = min(len(rows) for rows in runs)
        values = np.array([[row["return"] for row in rows[:steps]] for rows in runs])
        known = ~np.isnan(values).any(0)  # an episode of each seed has ended
        frames = np.array([row["frames"] for row in runs[0][:steps]])[known]
        if known.any():
            mean, (low, high) = interquartile_mean(values[:, known]), interval(values[:, known])
            label = f"interquartile mean, {len(runs)} seeds"
            axes.plot(frames, mean, color="tab:blue", linewidth=2, label=label)
            axes.fill_between(frames, low, high, color="tab:blue", alpha=0.2, label="95 % bootstrap interval")
            axes.legend(loc="lower right")
    axes.set(title=title, xlabel="Frames (env steps)", ylabel=f"Mean return of the last {WINDOW} episodes")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="png")
