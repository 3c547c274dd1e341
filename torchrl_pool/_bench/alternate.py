"""Measures contenders side by side on a noisy machine: alternating, many short rounds, median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Seconds:
    """Seconds per call: the median over rounds and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


def alternate(
    contenders: Mapping[str, Callable[[int], None]],
    round_seconds: float = 0.05,
    rounds: int = 30,
    clock: Callable[[], float] = time.perf_counter,
    tell: Callable[[str], None] = lambda what: None,
) -> dict[str, Seconds]:
    """Times contenders in turn.

    Args:
        contenders: by name, a function that makes as many calls as it is told.
        round_seconds: about how long one contender runs before the next has its turn.
        rounds: turns of each; at least 2.
        clock: ``time.thread_time`` for what one thread does, where others want the processor too.
        tell: hears what comes next, while no clock runs.
    """
    calls = {}
    for name, run in contenders.items():
        tell(f"warming {name} up")
        calls[name] = _calls_in(run, round_seconds)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        tell(f"round {number} of {rounds}")
        for name, run in contenders.items():
            start = clock()
            run(calls[name])
            samples[name].append((clock() - start) / calls[name])
    return {name: summary(values) for name, values in samples.items()}


def summary(values: list[float]) -> Seconds:
    """The median and the quartiles of at least two measurements."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Seconds(median, low, high)


def _calls_in(run: Callable[[int], None], seconds: float) -> int:
    """How many calls take about so long. Finding out warms the contender up."""
    run(1)
    calls = 1
    while True:
        start = time.perf_counter()
        run(calls)
        elapsed = time.perf_counter() - start
        if elapsed >= seconds / 2:
            return max(1, round(calls * seconds / elapsed))
        calls *= 4
