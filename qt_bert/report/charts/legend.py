"""Legends: what a colour or a line stands for."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.charts.canvas import Canvas, Place
from qt_bert.report.charts.scales import Colours
from qt_bert.report.numbers import number
from qt_bert.results.text import Label

ROW_HEIGHT = 20
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
    """One row a series from the canvas's top on; returns the height taken."""
    for i, (name, style) in enumerate(zip(names, styles, strict=True)):
        y = 12 + i * ROW_HEIGHT
        canvas.line((0, y - 4), (20, y - 4), f"{style} stroke swatch")
        canvas.text((28, y), name, "small")
    return ROW_HEIGHT * len(names) + 6


def series_styles(dashed: Sequence[bool]) -> list[str]:
    """A style for each series: its own colour, except that dashed lines are all grey."""
    colour = 0
    styles = []
    for is_dashed in dashed:
        if is_dashed:
            styles.append("reference")
        else:
            styles.append(f"series-{colour % 6 + 1}")
            colour += 1
    return styles
