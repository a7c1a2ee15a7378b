"""Scatters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qt_bert.report.charts.axes import BELOW, WIDTH, ends_of, plot, with_unit
from qt_bert.report.charts.canvas import LEADING, SMALL, Canvas, Place, fit, text_width
from qt_bert.report.charts.legend import mark_legend, series_styles
from qt_bert.report.charts.scales import Linear
from qt_bert.report.charts.shapes import outline
from qt_bert.results.figures import Mark, Scatter
from qt_bert.results.numbers import interval, number
from qt_bert.results.palette import shape_of
from qt_bert.results.text import Label, Text, in_language

_HEIGHT = 300
_MANY = 60
_RADIUS, _SMALL_RADIUS = 5.0, 3.4
_ROOM = 0.04
_LABEL_ROOM = 130

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def draw_scatter(figure: Scatter) -> Canvas:
    """Marks by two numbers over round ticks, intervals as thin crosses; every mark tells its numbers."""
    styles = series_styles([False] * len(figure.series))
    shapes = [shape_of(number) for number in range(len(styles))]
    canvas = Canvas(WIDTH, 0, figure.title)
    top = mark_legend(canvas, figure.series, styles, shapes) + 34
    canvas.height = top + _HEIGHT + BELOW
    ends = tuple(ends_of(_numbers(figure.points, axis), _ROOM) for axis in ("x", "y"))
    labels = with_unit(figure.x_label, figure.x_unit), with_unit(figure.y_label, figure.y_unit)
    x, y = plot(canvas, top, (ends[0], ends[1]), labels, _HEIGHT)
    looks = dict(zip(figure.series, zip(styles, shapes, strict=True), strict=True))
    for mark in figure.points:
        _draw_reach(canvas, mark, looks[mark.series][0], x, y)
    crowded = len(figure.points) > _MANY
    radius = _SMALL_RADIUS if crowded else _RADIUS
    for mark in figure.points:
        _draw_mark(canvas, mark, (x(mark.x), y(mark.y)), radius, looks[mark.series], crowded)
    _draw_labels(canvas, figure, x, y)
    return canvas


def _numbers(points: Iterable[Mark], axis: str) -> Iterator[float]:
    for mark in points:
        for name in (axis, f"{axis}_low", f"{axis}_high"):
            value = getattr(mark, name)
            if value is not None:
                yield value


def _draw_reach(canvas: Canvas, mark: Mark, style: str, x: Linear, y: Linear) -> None:
    if mark.x_low is not None and mark.x_high is not None:
        canvas.line((x(mark.x_low), y(mark.y)), (x(mark.x_high), y(mark.y)), f"{style} reach")
    if mark.y_low is not None and mark.y_high is not None:
        canvas.line((x(mark.x), y(mark.y_low)), (x(mark.x), y(mark.y_high)), f"{style} reach")


def _draw_mark(
    canvas: Canvas, mark: Mark, at: Place, radius: float, look: tuple[str, str], crowded: bool
) -> None:
    """One mark; in a crowd only those with a name or an interval tell their numbers."""
    style, shape = look
    bounded = mark.x_low is not None or mark.y_low is not None
    tip = _tip(mark) if mark.label or bounded or not crowded else None
    if shape == "circle":
        canvas.circle(at, radius, f"{style} spot", tip=tip)
    else:
        canvas.path(outline(shape, at, radius), f"{style} spot", closed=True, tip=tip)


def _tip(mark: Mark) -> Text:
    across, up = (
        f"{number(value)} {interval(low, high)}".rstrip()
        for value, low, high in (
            (mark.x, mark.x_low, mark.x_high),
            (mark.y, mark.y_low, mark.y_high),
        )
    )

    def words(language: str) -> str:
        names = [in_language(name, language) for name in (mark.label, mark.series) if name]
        return f"{' · '.join(names)}: x {across}, y {up}"

    return Text(words("zh"), words("en"))


def _draw_labels(canvas: Canvas, figure: Scatter, x: Linear, y: Linear) -> None:
    """Each beside its mark, where it covers least; none over another, its mark's tip tells it."""
    places = [(x(mark.x), y(mark.y)) for mark in figure.points]
    marks = [(a - _RADIUS, b - _RADIUS, a + _RADIUS, b + _RADIUS) for a, b in places]
    labels: list[Box] = []
    for mark, place in zip(figure.points, places, strict=True):
        if mark.label is not None:
            label = fit(mark.label, _LABEL_ROOM, SMALL)
            box = _freest(place, label, labels, marks, (x.start, y.end, x.end + 14, y.start))
            if not any(_meet(box, other) for other in labels):
                labels.append(box)
                canvas.text((box[0], box[3] - 3), label, "small halo through")


def _freest(place: Place, label: Label, labels: list[Box], marks: list[Box], inside: Box) -> Box:
    """Right of the place, left, above, below or askew: inside, over fewest labels, then marks."""
    width, (x, y) = text_width(label, SMALL), place
    gap, half = _RADIUS + 2, LEADING / 2
    lefts, tops = (x + gap, x - gap - width), (y - gap - LEADING + 3, y + gap - 3)
    corners = (
        (lefts[0], y - half),
        (lefts[1], y - half),
        (x - width / 2, y - gap - LEADING),
        (x - width / 2, y + gap),
        *((left, top) for top in tops for left in lefts),
    )
    boxes = [(left, top, left + width, top + LEADING) for left, top in corners]

    def covers(box: Box) -> tuple[bool, int, int]:
        names, dots = (sum(_meet(box, other) for other in others) for others in (labels, marks))
        return not _within(box, inside), names, dots

    return min(boxes, key=covers)


def _within(box: Box, around: Box) -> bool:
    return (
        box[0] >= around[0] and box[1] >= around[1] and box[2] <= around[2] and box[3] <= around[3]
    )


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
