"""Types of arguments that several benchmarks take."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for less, ValueError for no number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number
