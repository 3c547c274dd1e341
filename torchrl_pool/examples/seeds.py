"""Several seeds in one figure: the interquartile mean, with a bootstrap interval (Agarwal et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torchrl_pool.examples import say_what_is_missing

try:
    from scipy import stats
except ImportError as error:
    say_what_is_missing(error)

CONFIDENCE = 0.95  # that the interval has
RESAMPLES = 2000


def interquartile_mean(values: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
    """The mean without the lowest and the highest quarter, of fewer than four values their mean."""
    mean: NDArray[np.float64] = stats.trim_mean(values, 0.25, axis=axis)
    return mean


def interval(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the interquartile mean of other seeds would be, with a confidence of 95 %.

    Seeds are drawn with replacement, always the same draws: equal values have equal intervals.

    Args:
        values: one row for each seed, two at least.

    Returns:
        The lower and the upper end, with the shape of a row.
    """
    found = stats.bootstrap(
        (values,),
        interquartile_mean,
        axis=0,
        n_resamples=RESAMPLES,
        batch=100,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return found.confidence_interval.low, found.confidence_interval.high


def described(values: Sequence[float]) -> str:
    """Interquartile mean and interval as text."""
    if len(values) < 2:
        return f"{fmean(values):.1f}"
    low, high = interval(values)
    return f"interquartile mean {interquartile_mean(values):.1f}, 95 % interval {low:.1f} to {high:.1f}"


def summary(returns: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """The evaluations of several seeds: the file beside their folders.

    Args:
        returns: of the episodes of each seed.
    """
    means = [fmean(one) for one in returns.values()]
    low, high = interval(means)
    return {
        "returns": {str(seed): list(one) for seed, one in returns.items()},
        "means": means,
        "interquartile_mean": float(interquartile_mean(means)),
        "interval": [float(low), float(high)],
        "confidence": CONFIDENCE,
    }
