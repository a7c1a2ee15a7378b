"""Bars."""

from __future__ import annotations

from qt_bert.report.charts.canvas import LEADING, SMALL, Canvas, text_width
from qt_bert.report.charts.legend import series_legend, series_styles
from qt_bert.report.charts.scales import Linear, tick_label, ticks
from qt_bert.results.figures import Bars
from qt_bert.results.numbers import interval, number
from qt_bert.results.text import Text, in_language

_WIDTH = 420
_BAR, _GAP = 16, 14
_VALUE_ROOM, _LABEL_ROOM = 60, 150


def draw_bars(figure: Bars) -> Canvas:
    """Horizontal bars from zero, one group a category, each with its value and interval."""
    styles = series_styles([False] * len(figure.series))
    canvas = Canvas(_WIDTH, 0, figure.title)
    top = 0.0
    names = [series.name for series in figure.series]
    if names != [figure.y_label]:  # then the axis says it
        top = series_legend(canvas, names, styles)
    top += canvas.paragraph((0, top + 14), _axes(figure), _WIDTH, "muted small") + 11
    group = _BAR * len(styles) + _GAP
    bottom = top + group * len(figure.categories)
    canvas.height = bottom + 30
    widest = max([text_width(label, SMALL) for label in figure.categories], default=0)
    left = min(widest, _LABEL_ROOM) + 12
    x = _scale(figure, left)
    for tick in ticks(x.low, x.high):
        canvas.line((x(tick), top - 4), (x(tick), bottom), "grid")
        canvas.text((x(tick), bottom + 16), tick_label(tick), "muted small", anchor="middle")
    for i, label in enumerate(figure.categories):
        y = top + i * group
        place = left - 8, y + (group - _GAP) / 2 + 4
        most = int(group // LEADING)
        canvas.paragraph(place, label, _LABEL_ROOM, anchor="end", most=most, middle=True)
        for j, style in enumerate(styles):
            _draw_bar(canvas, figure, (i, j), x, y + j * _BAR, style)
    canvas.line((x(0), top - 4), (x(0), bottom), "axis")
    return canvas


def _scale(figure: Bars, left: float) -> Linear:
    ends = [0.0]
    for series in figure.series:
        ends += [value for value in series.values if value is not None]
        ends += [end for pair in series.intervals or () if pair for end in pair]
    # Values stand beside their bars, on the left for negative ones.
    start = left + (_VALUE_ROOM if min(ends) < 0 else 0)
    return Linear(min(ends), max(ends) or 1.0, start, _WIDTH - _VALUE_ROOM)


def _draw_bar(
    canvas: Canvas, figure: Bars, place: tuple[int, int], x: Linear, y: float, style: str
) -> None:
    category, series = place[0], figure.series[place[1]]
    value = series.values[category]
    middle = y + _BAR / 2
    if value is None:
        canvas.text((x(0) + 6, middle + 4), number(None), "muted small")
        return
    ends = series.intervals[category] if series.intervals else None
    low, high = ends or (None, None)
    tip = f"{number(value, figure.digits)} {interval(low, high, figure.digits)}".rstrip()
    start, end = sorted((x(0), x(value)))
    canvas.rect((start, y + 1), (end - start, _BAR - 3), f"{style} fill", tip=tip)
    if low is not None and high is not None:
        canvas.line((x(low), middle), (x(high), middle), "whisker")
        start, end = min(start, x(low)), max(end, x(high))
    shown = number(value, figure.digits)
    if value < 0:
        canvas.text((start - 5, middle + 4), shown, "small", anchor="end")
    else:
        canvas.text((end + 5, middle + 4), shown, "small")


def _axes(figure: Bars) -> Text:
    def words(language: str, by: str) -> str:
        parts = (figure.y_label, figure.unit, figure.x_label)
        value, unit, category = (in_language(part, language) for part in parts)
        shown = f"{value} ({unit})" if unit not in ("", value) else value
        return f"{shown} {by}{category}"

    return Text(words("zh", "· 按"), words("en", "by "))
