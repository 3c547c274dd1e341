"""Values of the run's options, as argparse takes them from texts."""

from __future__ import annotations

import argparse
import math

MOST_THREADS = 1024  # OpenMP crashes where it gets no more of them


def count(text: str) -> int:
    """A number of things, from the command line."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected at least 0, got {number}")
    return number


def threads(text: str) -> int:
    """A number of threads that a process can have; 0: as many as are usual."""
    number = count(text)
    if number > MOST_THREADS:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_THREADS}, got {number}")
    return number


def number(text: str) -> float:
    """A number that others can be compared with."""
    value = float(text)
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text}")
    return value
