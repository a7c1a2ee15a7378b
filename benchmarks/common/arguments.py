"""Types of arguments that several benchmarks take."""

from __future__ import annotations

import argparse
from pathlib import Path

from qt_bert.shipped import GRADED, shipped


def positive(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for less, ValueError for no number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def scoring_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with PAIRS…, `--columns`, `--model` and `--json`: what is scored and by what."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--columns")
    parser.add_argument("--model", type=Path, default=shipped(GRADED))
    parser.add_argument("--json", type=Path)
    return parser
