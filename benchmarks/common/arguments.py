"""Arguments of several benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from qt_bert.shipped import GRADED, shipped


def positive(text: str) -> int:
    """A whole number from 1. Raises ArgumentTypeError for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def scoring_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with PAIRS…, `--columns` and `--model`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--columns")
    parser.add_argument("--model", type=Path, default=shipped(GRADED))
    return parser
