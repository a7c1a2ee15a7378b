"""Two numeric axes, which curves and scatters share."""

from __future__ import annotations

from collections.abc import Iterable

from qt_bert.report.charts.canvas import Canvas, text_width
from qt_bert.report.charts.scales import Linear, tick_label, ticks
from qt_bert.results.text import Label, Text, in_language

WIDTH, HEIGHT = 410, 240
"""Pixels of the picture across, and of the plot from its top to its bottom."""

BELOW = 52
"""Pixels under the plot, for ticks and the name of the axis."""


def plot(
    canvas: Canvas,
    top: float,
    ends: tuple[tuple[float, float], tuple[float, float]],
    labels: tuple[Label, Label],
    height: float = HEIGHT,
) -> tuple[Linear, Linear]:
    """Draw both axes under `top`, over the `ends` and with the `labels` of x and y; their scales."""
    y = Linear(*ends[1], top + height, top)
    left = max(text_width(tick_label(tick), 12) for tick in ticks(y.low, y.high)) + 12
    x = Linear(*ends[0], left + 6, canvas.width - 14)
    canvas.text((0, top - 14), labels[1], "muted small")
    _draw(canvas, x, y, left, labels[0])
    return x, y


def ends_of(values: Iterable[float], share: float = 0.0) -> tuple[float, float]:
    """From the lowest to the highest value, and that `share` of the way beyond both."""
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = share * (high - low) if high > low else 0.5
    return low - room, high + room


def with_unit(label: Label, unit: Label) -> Label:
    """`share (%)`: the name of an axis and its unit, said once where they are the same."""
    if unit in ("", label):
        return label
    zh, en = (f"{in_language(label, k)} ({in_language(unit, k)})" for k in ("zh", "en"))
    return Text(zh, en)


def _draw(canvas: Canvas, x: Linear, y: Linear, left: float, x_label: Label) -> None:
    bottom = y.start
    for tick in ticks(y.low, y.high):
        canvas.line((left, y(tick)), (x.end + 8, y(tick)), "grid")
        canvas.text((left - 6, y(tick) + 4), tick_label(tick), "muted small", anchor="end")
    for tick in ticks(x.low, x.high, 6):
        canvas.line((x(tick), bottom + 4), (x(tick), bottom + 9), "axis")
        canvas.text((x(tick), bottom + 23), tick_label(tick), "muted small", anchor="middle")
    canvas.line((left, bottom + 4), (x.end + 8, bottom + 4), "axis")
    canvas.text(((x.start + x.end) / 2, bottom + 42), x_label, "muted small", anchor="middle")
