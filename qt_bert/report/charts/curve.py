"""Curves."""

from __future__ import annotations

from qt_bert.report.charts.canvas import Canvas, text_width
from qt_bert.report.charts.legend import series_legend, series_styles
from qt_bert.report.charts.scales import Linear, tick_label, ticks
from qt_bert.results.figures import Curve, Point, Series
from qt_bert.results.numbers import interval, number
from qt_bert.results.text import Label, Text, in_language

_WIDTH, _PLOT_HEIGHT = 410, 240


def draw_curve(figure: Curve) -> Canvas:
    """Lines with their intervals as bands, over round ticks; every point tells its numbers."""
    styles = series_styles([series.dashed for series in figure.series])
    canvas = Canvas(_WIDTH, 0, figure.title)
    top = series_legend(canvas, [series.name for series in figure.series], styles) + 34
    canvas.height = top + _PLOT_HEIGHT + 52
    points = [point for series in figure.series for point in series.points]
    x_low, x_high = _range([point.x for point in points])
    ends = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    y_low, y_high = _range(ends)
    y_ticks = ticks(y_low, y_high)
    left = max(text_width(tick_label(tick), 12) for tick in y_ticks) + 12
    x = Linear(x_low, x_high, left + 6, _WIDTH - 14)
    y = Linear(y_low, y_high, top + _PLOT_HEIGHT, top)
    canvas.text((0, top - 14), _with_unit(figure.y_label, figure.unit), "muted small")
    _draw_axes(canvas, x, y, left, _with_unit(figure.x_label, figure.x_unit))
    for series, style in zip(figure.series, styles, strict=True):
        _draw_series(canvas, series, style, x, y)
    return canvas


def _range(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_axes(canvas: Canvas, x: Linear, y: Linear, left: float, x_label: Label) -> None:
    bottom = y.start
    for tick in ticks(y.low, y.high):
        canvas.line((left, y(tick)), (x.end + 8, y(tick)), "grid")
        canvas.text((left - 6, y(tick) + 4), tick_label(tick), "muted small", anchor="end")
    for tick in ticks(x.low, x.high, 6):
        canvas.line((x(tick), bottom + 4), (x(tick), bottom + 9), "axis")
        canvas.text((x(tick), bottom + 23), tick_label(tick), "muted small", anchor="middle")
    canvas.line((left, bottom + 4), (x.end + 8, bottom + 4), "axis")
    canvas.text(((x.start + x.end) / 2, bottom + 42), x_label, "muted small", anchor="middle")


def _draw_series(canvas: Canvas, series: Series, style: str, x: Linear, y: Linear) -> None:
    if not series.points:
        return
    bounded = [p for p in series.points if p.low is not None and p.high is not None]
    if len(bounded) > 1:
        lower = [(x(p.x), y(p.low)) for p in bounded if p.low is not None]
        upper = [(x(p.x), y(p.high)) for p in bounded if p.high is not None]
        canvas.path(lower + upper[::-1], f"{style} band", closed=True)
    canvas.path([(x(p.x), y(p.y)) for p in series.points], f"{style} stroke")
    if not series.dashed:
        for point in series.points:
            canvas.circle((x(point.x), y(point.y)), 3.5, f"{style} dot", tip=_tip(series, point))


def _tip(series: Series, point: Point) -> Text:
    numbers = f"{point.x:g}: {number(point.y)} {interval(point.low, point.high)}".rstrip()
    base = "" if point.n is None else f", n = {point.n:,}"
    zh, en = (in_language(series.name, language) for language in ("zh", "en"))
    return Text(f"{zh} {numbers}{base}", f"{en} {numbers}{base}")


def _with_unit(label: Label, unit: Label) -> Label:
    if unit in ("", label):
        return label
    zh, en = (f"{in_language(label, k)} ({in_language(unit, k)})" for k in ("zh", "en"))
    return Text(zh, en)
