"""Legends: what a colour or a line stands for."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.charts.canvas import Canvas, Place
from qt_bert.report.charts.scales import Colours
from qt_bert.report.charts.shapes import outline
from qt_bert.results.numbers import number
from qt_bert.results.text import Label

_GAP = 5
_STEPS = 24
_LENGTH = 144


def colour_legend(canvas: Canvas, place: Place, colours: Colours, unit: Label, digits: int) -> None:
    """A strip of the colours with the values of its two ends and the unit."""
    x, y = place
    width = _LENGTH / _STEPS
    for i in range(_STEPS):
        value = colours.low + (colours.high - colours.low) * i / (_STEPS - 1)
        style, opacity = colours(value)
        canvas.rect((x + i * width, y), (width, 8), f"{style} step", opacity=opacity)
    canvas.text((x, y + 22), number(float(colours.low), digits), "muted small")
    canvas.text(
        (x + _LENGTH, y + 22), number(float(colours.high), digits), "muted small", anchor="end"
    )
    canvas.text((x + _LENGTH + 10, y + 9), unit, "muted small")


def series_legend(canvas: Canvas, names: Sequence[Label], styles: Sequence[str]) -> float:
    """The series from the canvas's top on, each with its line; returns the height taken."""
    y = 12.0
    for name, style in zip(names, styles, strict=True):
        canvas.line((0, y - 4), (20, y - 4), f"{style} stroke swatch")
        y += canvas.paragraph((28, y), name, canvas.width - 28) + _GAP
    return y - 6


def mark_legend(
    canvas: Canvas, names: Sequence[Label], styles: Sequence[str], shapes: Sequence[str]
) -> float:
    """The series of marks from the canvas's top on, each with its shape; returns the height taken."""
    y = 12.0
    for name, style, shape in zip(names, styles, shapes, strict=True):
        canvas.path(outline(shape, (8, y - 4), 5), f"{style} spot", closed=True)
        y += canvas.paragraph((20, y), name, canvas.width - 20) + _GAP
    return y - 6


def series_styles(dashed: Sequence[bool]) -> list[str]:
    """A style for each series: its own colour; dashed ones are grey, each dashed in its own way."""
    counts = {True: 0, False: 0}
    styles = []
    for is_dashed in dashed:
        counts[is_dashed] += 1
        if is_dashed:
            styles.append(f"reference dash-{(counts[True] - 1) % 3 + 1}")
        else:
            styles.append(f"series-{(counts[False] - 1) % 6 + 1}")
    return styles
