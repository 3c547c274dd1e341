"""Values of the run's options, as argparse takes them from texts."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A number of things, from the command line."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected at least 0, got {number}")
    return number
