"""What the command line says of a pair: the figures that the page must show, digit by digit."""

import json
from functools import cache
from typing import Any

from typer.testing import CliRunner

DIGITS = 4
"""Decimals of an expected grade on the page."""


@cache
def explained(query: str, title: str, heads: str = "", mode: str = "zero") -> dict[str, Any]:
    """`qt-bert explain QUERY TITLE --heads-out HEADS --mode MODE --json`."""
    from qt_bert.cli.register import app

    without = ["--heads-out", heads, "--mode", mode] if heads else []
    ended = CliRunner().invoke(app, ["explain", query, title, *without, "--json"])
    if ended.exit_code:
        raise RuntimeError(f"qt-bert explain failed: {ended.output}") from ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def grade(query: str, title: str, heads: str = "", mode: str = "zero", digits: int = DIGITS) -> str:
    """The expected grade as the page writes it."""
    return f"{explained(query, title, heads, mode)['expected_grade']:.{digits}f}"
