"""Curves."""

from __future__ import annotations

from qt_bert.report.charts.axes import BELOW, HEIGHT, WIDTH, ends_of, plot, with_unit
from qt_bert.report.charts.canvas import Canvas
from qt_bert.report.charts.legend import series_legend, series_styles
from qt_bert.report.charts.scales import Linear
from qt_bert.results.figures import Curve, Point, Series
from qt_bert.results.numbers import interval, number
from qt_bert.results.text import Text, in_language


def draw_curve(figure: Curve) -> Canvas:
    """Lines with their intervals as bands, over round ticks; every point tells its numbers."""
    styles = series_styles([series.dashed for series in figure.series])
    canvas = Canvas(WIDTH, 0, figure.title)
    top = series_legend(canvas, [series.name for series in figure.series], styles) + 34
    canvas.height = top + HEIGHT + BELOW
    points = [point for series in figure.series for point in series.points]
    heights = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    ends = ends_of(point.x for point in points), ends_of(heights)
    labels = with_unit(figure.x_label, figure.x_unit), with_unit(figure.y_label, figure.unit)
    x, y = plot(canvas, top, ends, labels)
    for series, style in zip(figure.series, styles, strict=True):
        _draw_series(canvas, series, style, x, y)
    return canvas


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
