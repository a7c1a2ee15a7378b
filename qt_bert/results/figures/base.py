"""What all kinds of figures share: their way to JSON, and what is checked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from qt_bert.errors import ArgumentError
from qt_bert.results.codec import encode

Scale = Literal["sequential", "diverging"]
"""Colours from nothing to much, or from negative over zero to positive."""


class BaseFigure:
    """A figure of any kind."""

    __slots__ = ()

    name: str

    def to_json(self) -> dict[str, Any]:
        """Plain data with the key `kind`; `figure_from_json` reads it."""
        return encode(self)  # type: ignore[no-any-return]


def check_matrix(
    figure: BaseFigure, name: str, matrix: Sequence[Sequence[Any]], shape: tuple[int, int]
) -> None:
    """Raise ArgumentError where `matrix` has not the `shape` [rows, columns] of the labels."""
    check_length(figure, f"rows of {name}", matrix, shape[0])
    for row in matrix:
        check_length(figure, f"{name} in a row", row, shape[1])


def check_length(figure: BaseFigure, name: str, items: Sequence[Any], expected: int) -> None:
    """Raise ArgumentError where there are not as many `items` as labels."""
    if len(items) != expected:
        raise fault(figure, f"{len(items)} {name}, but {expected} labels")


def fault(figure: BaseFigure, what: str) -> ArgumentError:
    """The error that says what is wrong with a figure."""
    return ArgumentError(f"figure {figure.name!r}: {what}")
