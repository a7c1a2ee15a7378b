"""Figures drawn as Altair charts, which the page shows live and the report embeds as SVG.

Token rows, which wrap as text does, are HTML: see `qt_bert.token_rows`.

Labels travel to a chart as lists beside the data, which holds their places alone: two tokens may be
the same character, and a text of a visitor never becomes a formula. Altair is imported to draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from qt_bert.figures import Bars, Curve, HeatMap, Interval, Links, Scatter
from qt_bert.results.palette import LIGHT, Palette, Shades, shape_of
from qt_bert.text import (
    FONT,
    LEADING,
    SMALL,
    TIGHT,
    Label,
    Text,
    Words,
    fit,
    interval,
    number,
    printable,
    unpaired,
    width_of,
    wrap,
)

if TYPE_CHECKING:
    import altair as alt

FONTS = (
    '"Source Sans", "Helvetica Neue", Arial, "PingFang SC", "Microsoft YaHei", '
    '"Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", sans-serif'
)
"""Latin letters as on the page; Chinese from what the system has."""

CLICKED = "cell"
"""The name of the selection that a click on a heat map makes; its fields: row, column, click."""

CELLS_WITH_TEXT = 1_600
"""A heat map of more cells shows no numbers, but where they are pointed at."""

_PLOT, _PLOT_HEIGHT = 352, 240
"""Pixels of the plot of a curve or scatter, across and up."""

Row = dict[str, Any]


def chart(
    figure: HeatMap | Bars | Curve | Scatter | Links,
    language: str,
    palette: Palette = LIGHT,
    *,
    clicks: int | None = None,
) -> alt.LayerChart:
    """The chart of a figure in its natural size in pixels, in the language `zh` or `en`.

    In `both`, each text that differs is a `paired` one, which the reader of the picture takes apart.
    `clicks`, the number of clicks so far, makes a heat map's cells clickable (selection `CLICKED`).
    Token rows are no chart: see `qt_bert.token_rows`.
    """
    from altair.utils.schemapi import disable_debug_mode

    disable_debug_mode()  # which checks every part when it is made: most of a page's time; tests do it
    localised = Words(language)
    match figure:
        case HeatMap():
            return _heat_map(figure, localised, palette, clicks)
        case Bars():
            return _bars(figure, localised, palette)
        case Curve():
            return _curve(figure, localised, palette)
        case Scatter():
            return _scatter(figure, localised, palette)
        case Links():
            return _links(figure, localised, palette)


def _laid(
    layers: Sequence[alt.Chart],
    table: Iterable[Row],
    palette: Palette,
    *,
    size: tuple[float, float],
    heading: list[str],
    **labels: Any,
) -> alt.LayerChart:
    """Layers over one table, under a heading that names the axes; `labels` by their names."""
    import altair as alt

    title = alt.TitleParams(
        heading,
        anchor="start",
        frame="bounds",
        fontSize=SMALL,
        fontWeight="normal",
        color=palette.muted,
        lineHeight=LEADING,
        offset=8,
    )
    axis = alt.AxisConfig(
        labelFontSize=SMALL,
        titleFontSize=SMALL,
        titleFontWeight="normal",
        labelColor=palette.muted,
        titleColor=palette.muted,
        labelLimit=0,
        domain=False,
        ticks=False,
        gridColor=palette.grid,
        tickColor=palette.muted,
        domainColor=palette.muted,
    )
    drawn = alt.LayerChart(
        layer=list(layers),
        width=size[0],
        height=size[1],
        padding=dict.fromkeys(("left", "top", "right", "bottom"), 2),  # Streamlit wants each
        background="transparent",
        config=alt.Config(
            aria=False,
            font="sans-serif",
            view=alt.ViewConfig(stroke=None),
            axis=axis,
            legend=alt.LegendConfig(
                labelFontSize=SMALL, labelColor=palette.ink, labelLimit=0, symbolOpacity=1
            ),
        ),
        title=title if heading else alt.Undefined,
        # `add_params` would copy every layer four times.
        params=[alt.VariableParameter(name=name, value=value) for name, value in labels.items()]
        or alt.Undefined,
    )
    drawn.data = alt.Data(values=list(table))  # last, for Altair copies all that it is given
    return drawn


def _ends_of(values: Iterable[float | None], share: float = 0.04) -> Interval:
    """From the lowest to the highest value, and that `share` of the way beyond both."""
    known = [value for value in values if value is not None]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = share * (high - low) if high > low else 0.5
    return low - room, high + room


def _legend(names: Sequence[Label], localised: Words, width: float, **more: Any) -> tuple[Any, Any]:
    """A legend above the plot, one series a row, and the labels that it shows."""
    import altair as alt

    if not names:
        return None, []
    # Names that need two lines are lists; one line stays a text.
    labels = [_lines(localised(name), width - 28) for name in names]
    legend = alt.Legend(
        orient="top",
        direction="vertical",
        columns=1,
        title=None,
        labelExpr="series_names[datum.value]",
        offset=6,
        rowPadding=3 + LEADING * (max(len(_parts(label)) for label in labels) - 1),
        **more,
    )
    return legend, labels


def _lines(text: str, width: float, most: int = 2) -> str | list[str]:
    lines = wrap(text, width, most)
    return lines if len(lines) > 1 else "".join(lines)


def _parts(lines: str | list[str]) -> list[str]:
    return [lines] if isinstance(lines, str) else lines


def _widest(texts: Iterable[str], size: float = SMALL) -> float:
    return max((width_of(text, size) for text in texts), default=0)


def _axes(parts: Iterable[tuple[str, str]], width: float) -> list[str]:
    """A heading that names each axis that has a name."""
    return wrap(" · ".join(of + name for of, name in parts if name), width)


def _quantity(field: str, low: float, high: float, **more: Any) -> Any:
    """A scale from `low` to `high` exactly; given ends keep missing values from mattering."""
    import altair as alt

    kind = alt.X if field == "x" else alt.Y
    ends = alt.Scale(domain=[low, high], nice=False, zero=False)
    return kind(f"{field}:Q", scale=ends, **more)


def _plane(figure: Curve | Scatter, localised: Words, x: Interval, y: Interval) -> tuple[Any, Any]:
    """Both scales, from end to end exactly; the heading names y."""
    import altair as alt

    title = localised.with_unit(figure.x_label, figure.x_unit) or None
    across = alt.Axis(title=title, tickCount=6, grid=False, domain=True, ticks=True)
    up = alt.Axis(title=None, tickCount=5, labelPadding=6)
    return _quantity("x", *x, axis=across), _quantity("y", *y, axis=up)


# Heat maps

STEPS, STEP = 24, 6
"""Steps of a legend's strip of colours, and pixels of each."""


def _heat_map(
    figure: HeatMap, localised: Words, palette: Palette, clicks: int | None
) -> alt.LayerChart:
    """Cells coloured by value; the numbers stand in them where a cell has room."""
    import altair as alt

    shades = Shades.over(
        (value for row in figure.values for value in row), figure.scale, figure.low, figure.high
    )
    columns = [fit(localised(label), 110, SMALL) for label in figure.columns]
    rows = [_lines(localised(label), 220) for label in figure.rows]
    left = _widest(part for lines in rows for part in _parts(lines))
    cell = _cell_size(figure, left)
    shape = len(rows), len(columns)
    numbered = shape[0] * shape[1] <= CELLS_WITH_TEXT
    hues = alt.Scale(
        domain=["heat", "negative", "positive", "missing"],
        range=[palette.heat, palette.negative, palette.positive, palette.grid],
    )
    fill = {
        "fill": alt.Fill("hue:N", scale=hues, legend=None),
        "fillOpacity": alt.FillOpacity("share:Q", scale=None, legend=None),
    }
    down = alt.Axis(
        title=None,
        grid=False,
        labelExpr="rows[datum.value]",
        labelColor=palette.ink,
        labelOverlap="greedy",
        labelPadding=6,
        minExtent=left + 6,
    )
    base = alt.Chart().encode(
        x=alt.X(
            "column:O",
            scale=alt.Scale(domain=list(range(shape[1]))),
            axis=_across(columns, palette),
        ),
        y=alt.Y("row:O", scale=alt.Scale(domain=list(range(shape[0]))), axis=down),
        tooltip=alt.Tooltip("tip:N"),
    )
    cells = base.mark_rect(aria=True, stroke=palette.grid, strokeWidth=1)
    layers = [cells.encode(**fill, description=alt.Description("tip:N"))]
    if numbered:
        layers += _cell_texts(figure, base, palette)
    if figure.marked:
        inset: dict[str, Any] = {"width": {"band": 0.92}, "height": {"band": 0.92}}
        outlined = base.transform_filter("datum.marked")
        layers.append(
            outlined.mark_rect(filled=False, stroke=palette.ink, strokeWidth=1.8, **inset)
        )
    if clicks is not None:  # above all else, so that a click on a number is one on its cell
        select = alt.selection_point(
            name=CLICKED, fields=["row", "column", "click"], toggle=False, clear=False
        )
        layers.append(base.mark_rect(opacity=0, cursor="pointer").add_params(select))
    layers += _strip(shades, localised(figure.unit), figure.digits, fill, palette)
    axes = (
        (localised(Text("行：", "rows: ")), localised(figure.y_label)),
        (localised(Text("列：", "columns: ")), localised(figure.x_label)),
    )
    widths = [round(width_of(label, SMALL)) for label in columns]
    return _laid(
        layers,
        _cells(figure, shades, localised, numbered, clicks),
        palette,
        size=(cell[0] * shape[1], cell[1] * shape[0]),
        heading=_axes(axes, max(left + cell[0] * shape[1], 300)),
        rows=rows,
        columns=columns,
        # Turning a label wins nothing where it is hardly wider than high.
        widths=[width if width > 1.3 * SMALL else 0 for width in widths],
    )


def _cell_size(figure: HeatMap, left: float) -> tuple[float, float]:
    """Room for the values where there are few columns, else small cells, within half a page."""
    columns, rows, half = len(figure.columns), len(figure.rows), 520
    if columns > 16:
        return (20, 20) if left + 20 * columns <= half else (24, 24)
    height = 46 if figure.annotations else 28
    if columns <= 6:
        return (64 if rows <= 16 else 52), height
    widest = _widest(_cell_words(figure))
    if left + (widest + 3) * columns > half:
        widest = _widest(_cell_words(figure), TIGHT)
    return round(min(max(widest + 3, 34), 64)), height


def _cell_words(figure: HeatMap) -> Iterator[str]:
    yield from (number(value, figure.digits) for row in figure.values for value in row)
    yield from (text for row in figure.annotations or () for text in row)


def _across(columns: Sequence[str], palette: Palette) -> alt.Axis:
    """An axis on top; labels wider than a cell stand upright, and are thinned where they touch."""
    import altair as alt

    count = max(len(columns), 1)
    wide = f"widths[datum.value] > width / {count} - 1"
    longest = round(_widest(columns))
    return alt.Axis(
        title=None,
        orient="top",
        grid=False,
        labelExpr="columns[datum.value]",
        labelColor=palette.ink,
        labelAngle=alt.ExprRef(f"{wide} ? -90 : 0"),
        labelAlign=alt.ExprRef(f"{wide} ? 'left' : 'center'"),
        labelBaseline=alt.ExprRef(f"{wide} ? 'middle' : 'bottom'"),
        labelOverlap="greedy",
        labelSeparation=1,
        labelFlush=False,
        labelPadding=4,
        minExtent=alt.ExprRef(f"{longest} > width / {count} - 1 ? {longest} : {SMALL}"),
    )


def _cells(
    figure: HeatMap, shades: Shades, localised: Words, numbered: bool, clicks: int | None
) -> Iterator[Row]:
    """One row a cell; its `tip` describes it."""
    marked, unit = set(figure.marked), localised(figure.unit)
    rows, columns = (
        [localised(label) for label in labels] for labels in (figure.rows, figure.columns)
    )
    for i, values in enumerate(figure.values):
        for j, value in enumerate(values):
            hue, share = shades(value)
            shown = number(value, figure.digits)
            note = "" if figure.annotations is None else printable(figure.annotations[i][j])
            tip = f"{rows[i]} → {columns[j]}: {shown} {unit}".rstrip()
            cell: Row = {"row": i, "column": j, "hue": hue, "share": share}
            cell["tip"] = f"{tip} ({note})" if note else tip
            if numbered:
                cell |= {"shown": shown, "ink": shades.ink(value)}
                if note:
                    cell["note"] = note
            if (i, j) in marked:
                cell["marked"] = True
            if clicks is not None:
                cell["click"] = clicks
            yield cell


def _cell_texts(figure: HeatMap, base: alt.Chart, palette: Palette) -> list[alt.Chart]:
    """The values, and annotations under them, where the cells are wide enough."""
    import altair as alt

    cell = f"width / {max(len(figure.columns), 1)}"
    small, tight = (_widest(_cell_words(figure), size) for size in (SMALL, TIGHT))
    size = alt.ExprRef(f"{cell} > {small:.1f} ? {SMALL} : {TIGHT}")
    seen = alt.ExprRef(f"{cell} > {tight:.1f} ? 1 : 0")
    inks = alt.Scale(
        domain=["ink", "on_middle", "on_heat"],
        range=[palette.ink, palette.on_middle, palette.on_heat],
    )

    def text(field: str, down: int) -> alt.Chart:
        words = base.mark_text(fontSize=size, dy=down, opacity=seen)
        return words.encode(
            text=alt.Text(f"{field}:N"), color=alt.Color("ink:N", scale=inks, legend=None)
        )

    if figure.annotations is None:
        return [text("shown", 0)]
    return [text("shown", -7), text("note", 8).transform_filter("isValid(datum.note)")]


def _strip(
    shades: Shades, unit: str, digits: int, fill: dict[str, Any], palette: Palette
) -> list[alt.Chart]:
    """A legend under the map: the colours from end to end, the values of the ends, the unit."""
    import altair as alt

    steps = [
        dict(zip(("left", "hue", "share"), (place * STEP, *shades(value)), strict=True))
        for place, value in enumerate(shades.strip(STEPS))
    ]
    box: dict[str, Any] = {
        "x": alt.ExprRef("datum.left"),
        "x2": alt.ExprRef(f"datum.left + {STEP}"),
        "y": alt.ExprRef("height + 10"),
        "y2": alt.ExprRef("height + 18"),
    }
    layers = [alt.Chart(alt.Data(values=steps)).mark_rect(**box, strokeWidth=0).encode(**fill)]
    low, high = (number(float(end), digits) for end in (shades.low, shades.high))
    for words, left, down, align in (
        (low, 0, 26, "left"),
        (high, STEP * STEPS, 26, "right"),
        (unit, STEP * STEPS + 10, 14, "left"),
    ):
        text = alt.Chart(alt.Data(values=[{"text": words}] if words else []))
        place: dict[str, Any] = {"x": left, "y": alt.ExprRef(f"height + {down}"), "align": align}
        layers.append(
            text.mark_text(**place, fontSize=SMALL, color=palette.muted).encode(
                text=alt.Text("text:N")
            )
        )
    return layers


# Bars

_BARS_WIDTH, _BAR, _GAP, _VALUE_ROOM, _NAME_ROOM = 416, 16, 14, 60, 150


def _bars(figure: Bars, localised: Words, palette: Palette) -> alt.LayerChart:
    """Bars from zero to the right or left, one group a category, each with value and interval."""
    import altair as alt

    group = _BAR * max(len(figure.series), 1) + _GAP
    most = max(1, group // LEADING)
    names = [_lines(localised(label), _NAME_ROOM, most) for label in figure.categories]
    left = _widest(part for lines in names for part in _parts(lines)) + 8
    width = _BARS_WIDTH - left
    low, high = _reach(figure, width)
    count = len(figure.series)
    colours = [palette.series[place % len(palette.series)] for place in range(count)]
    legend, labels = _legend(
        [series.name for series in figure.series], localised, _BARS_WIDTH, symbolType="square"
    )
    named = [series.name for series in figure.series] == [figure.y_label]  # the axis has the name
    base = alt.Chart().encode(
        y=alt.Y(
            "category:O",
            scale=alt.Scale(
                domain=list(range(len(names))), paddingInner=_GAP / group, paddingOuter=0.1
            ),
            axis=alt.Axis(
                title=None,
                grid=False,
                labelExpr="categories[datum.value]",
                labelColor=palette.ink,
                labelLineHeight=LEADING,
                minExtent=left,
                labelPadding=8,
            ),
        ),
        # The gaps between bars are the scale's: a height as a share of the band would centre a bar in
        # its whole group, away from its interval and value.
        yOffset=alt.YOffset(
            "series:O",
            scale=alt.Scale(domain=list(range(count)), paddingInner=0.18, paddingOuter=0.09),
        ),
    )
    x = _quantity("x", low, high, axis=alt.Axis(title=None, tickCount=4), stack=None)
    zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(color=palette.muted).encode(x=x)
    marks = base.transform_filter("isValid(datum.x)").mark_bar(aria=True, binSpacing=0)
    marks = marks.encode(
        x=x,
        x2=alt.datum(0),
        color=alt.Color(
            "series:N",
            scale=alt.Scale(domain=list(range(count)), range=colours),
            legend=None if named else legend,
        ),
        description=alt.Description("tip:N"),
        tooltip=alt.Tooltip("tip:N"),
    )
    layers = [marks, zero]
    if any(series.intervals for series in figure.series):
        bounded = base.transform_filter("isValid(datum.low)")
        layers.append(
            bounded.mark_rule(color=palette.ink, strokeWidth=1.3).encode(
                x=alt.X("low:Q"), x2="high:Q", tooltip=alt.Tooltip("tip:N")
            )
        )
    texts: tuple[tuple[str, Any, int], ...] = (("right", "left", 5), ("left", "right", -5))
    for side, align, gap in texts:
        words = base.transform_filter(f"datum.side == '{side}'")
        words = words.mark_text(align=align, dx=gap, fontSize=SMALL, color=palette.ink)
        layers.append(words.encode(x=alt.X("end:Q"), text="shown:N", tooltip=alt.Tooltip("tip:N")))
    value = localised.with_unit(figure.y_label, figure.unit)
    zh, en = unpaired(localised(figure.x_label))
    by = localised(Text(f"· 按{zh}", f"by {en}")) if zh or en else ""
    heading = " ".join(part for part in (value, by) if part)
    return _laid(
        layers,
        _bar_rows(figure, localised),
        palette,
        size=(width, group * len(names)),
        heading=wrap(heading, _BARS_WIDTH),
        categories=names,
        series_names=labels,
    )


def _reach(figure: Bars, width: float) -> Interval:
    """The ends of the axis, with room for the numbers beside the longest bars."""
    ends = [0.0]
    for series in figure.series:
        ends += [value for value in series.values if value is not None]
        ends += [end for pair in series.intervals or () if pair for end in pair]
    low, high = min(ends), max(ends)
    if low == high:
        high = 1.0
    left = _VALUE_ROOM if low < 0 else 0
    pixel = (high - low) / (width - left - _VALUE_ROOM)
    return low - pixel * left, high + pixel * _VALUE_ROOM


def _bar_rows(figure: Bars, localised: Words) -> Iterator[Row]:
    categories = [localised(label) for label in figure.categories]
    for j, series in enumerate(figure.series):
        for i, value in enumerate(series.values):
            ends = series.intervals[i] if series.intervals else None
            low, high = ends or (None, None)
            shown = number(value, figure.digits)
            tip = f"{shown} {interval(low, high, figure.digits)}".rstrip()
            name = " · ".join(part for part in (categories[i], localised(series.name)) if part)
            row = {"category": i, "series": j, "x": value, "low": low, "high": high}
            reached = [end for end in (0.0, value, low, high) if end is not None]
            negative = value is not None and value < 0
            yield row | {
                "end": min(reached) if negative else max(reached),
                "side": "left" if negative else "right",
                "shown": shown,
                "tip": f"{name}: {tip}",
            }


# Curves

_DASHES = ((6, 4), (2, 3), (10, 3, 2, 3))


def _curve(figure: Curve, localised: Words, palette: Palette) -> alt.LayerChart:
    """Lines with their intervals as bands; dashed ones are grey, each dashed in its own way."""
    import altair as alt

    places = list(range(len(figure.series)))
    colours, dashes = _line_styles(figure, palette)
    legend, labels = _legend(
        [s.name for s in figure.series],
        localised,
        _PLOT + 40,
        symbolType="stroke",
        symbolStrokeWidth=3,
    )
    points = [point for series in figure.series for point in series.points]
    x, y = _plane(
        figure,
        localised,
        _ends_of((point.x for point in points), 0.02),
        _ends_of(value for p in points for value in (p.y, p.low, p.high)),
    )
    colour = alt.Color("series:N", scale=alt.Scale(domain=places, range=colours), legend=legend)
    base = alt.Chart().encode(x=x, color=colour)
    layers = []
    if any(point.low is not None and point.high is not None for point in points):
        bounded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        layers.append(bounded.mark_area(opacity=0.18).encode(y=alt.Y("low:Q"), y2="high:Q"))
    layers.append(
        base.mark_line(strokeWidth=2).encode(
            y=y,
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=places, range=dashes), legend=legend
            ),
        )
    )
    dots = base.mark_point(aria=True, filled=True, opacity=1)
    layers.append(
        dots.encode(
            y=y,
            size=alt.Size("size:Q", scale=None, legend=None),
            tooltip=alt.Tooltip("tip:N"),
            description=alt.Description("tip:N"),
        )
    )
    return _laid(
        layers,
        _curve_rows(figure, localised),
        palette,
        size=(_PLOT, _PLOT_HEIGHT),
        heading=wrap(localised.with_unit(figure.y_label, figure.unit), _PLOT + 40),
        series_names=labels,
    )


def _line_styles(figure: Curve, palette: Palette) -> tuple[list[str], list[list[int]]]:
    colours: list[str] = []
    dashes: list[list[int]] = []
    for place, series in enumerate(figure.series):
        before = sum(other.dashed == series.dashed for other in figure.series[:place])
        if series.dashed:
            colours.append(palette.muted)
            dashes.append(list(_DASHES[before % len(_DASHES)]))
        else:
            colours.append(palette.series[before % len(palette.series)])
            dashes.append([1, 0])
    return colours, dashes


def _curve_rows(figure: Curve, localised: Words) -> Iterator[Row]:
    for place, series in enumerate(figure.series):
        for p in series.points:
            base = "" if p.n is None else f", n = {p.n:,}"
            measured = f"{number(p.y)} {interval(p.low, p.high)}".rstrip()
            yield {
                "series": place,
                "x": p.x,
                "y": p.y,
                "low": p.low,
                "high": p.high,
                "size": 14 if series.dashed else 40,
                "tip": f"{localised(series.name)} {p.x:g}: {measured}{base}".strip(),
            }


# Scatters

_SCATTER_HEIGHT, _MANY, _LABEL_ROOM = 300, 60, 130


def _scatter(figure: Scatter, localised: Words, palette: Palette) -> alt.LayerChart:
    """Colour and shape by series, labels at the right of their marks."""
    import altair as alt

    x_ends = _ends_of(mark.x for mark in figure.points)
    y_ends = _ends_of(mark.y for mark in figure.points)
    x, y = _plane(figure, localised, x_ends, y_ends)
    places = list(range(len(figure.series)))
    legend, labels = _legend(figure.series, localised, _PLOT + 40)
    shown = legend if any(localised(name) for name in figure.series) else None
    hues = [palette.series[place % len(palette.series)] for place in places]
    colour = alt.Color("series:N", scale=alt.Scale(domain=places, range=hues), legend=shown)
    shapes = alt.Scale(domain=places, range=[shape_of(place) for place in places])
    size = 70 if len(figure.points) <= _MANY else 36
    base = alt.Chart().encode(x=x, y=y, tooltip=alt.Tooltip("tip:N"))
    marks = base.mark_point(
        aria=True, filled=True, size=size, opacity=0.85, stroke=palette.surface, strokeWidth=0.6
    ).encode(
        color=colour,
        shape=alt.Shape("series:N", scale=shapes, legend=shown),
        description=alt.Description("tip:N"),
    )
    words = base.transform_filter("isValid(datum.label)").mark_text(
        fontSize=SMALL, color=palette.ink, align="left", baseline="middle", dx=7
    )
    return _laid(
        [marks, words.encode(text="label:N")],
        _scatter_rows(figure, localised, x_ends, y_ends),
        palette,
        size=(_PLOT, _SCATTER_HEIGHT),
        heading=wrap(localised.with_unit(figure.y_label, figure.y_unit), _PLOT + 40),
        series_names=labels,
    )


def _scatter_rows(
    figure: Scatter, localised: Words, x_ends: Interval, y_ends: Interval
) -> Iterator[Row]:
    """A label that would cover an earlier one is left out; its mark has it as a tip."""
    series = {name: place for place, name in enumerate(figure.series)}
    across = _PLOT / (x_ends[1] - x_ends[0])
    down = _SCATTER_HEIGHT / (y_ends[1] - y_ends[0])
    taken: list[tuple[float, float, float]] = []  # left, right, middle
    for mark in figure.points:
        row: Row = {"series": series[mark.series], "x": mark.x, "y": mark.y}
        if mark.label is not None:
            label = fit(localised(mark.label), _LABEL_ROOM, SMALL)
            left, middle = mark.x * across, mark.y * down
            right = left + width_of(label, SMALL)
            if all(right < a or b < left or abs(middle - m) >= LEADING for a, b, m in taken):
                taken.append((left, right, middle))
                row["label"] = label
        names = " · ".join(localised(name) for name in (mark.label, mark.series) if name)
        yield row | {"tip": f"{names}: x {number(mark.x)}, y {number(mark.y)}"}


# Links

_LINK_ROW, _LINK_WIDTH = 22, 200


def _links(figure: Links, localised: Words, palette: Palette) -> alt.LayerChart:
    """Lines as opaque as their weight; a token that is pointed at or clicked keeps only its own."""
    import altair as alt

    left, right = (
        [fit(printable(token), 110, FONT) for token in side] for side in (figure.left, figure.right)
    )
    near, far = (round(_widest(names, FONT)) + 16 for names in (left, right))
    count = max(len(left), len(right), 1)
    size = (_LINK_WIDTH + near + far, _LINK_ROW * count)
    ends: list[Any] = [near, alt.ExprRef(f"width - {far}")]
    across = alt.Scale(domain=[0, 1], range=ends, nice=False, zero=False)
    down = alt.Scale(domain=[-0.5, count - 0.5], range=[0, size[1]], nice=False, zero=False)
    # Tokens on the left are numbered 0, 1, …, on the right −1, −2, …. An event on a mark of any layer
    # sets the selection: one on a line names no token.
    kept = "!token.token || !isValid(token.token[0]) || "
    kept += "token.token[0] === datum.left || token.token[0] === -1 - datum.right"
    lines = alt.Chart().transform_filter(kept).mark_rule(aria=True, color=palette.heat)
    lines = lines.encode(
        x=alt.X(datum=0, scale=across, axis=None),
        x2=alt.X2(datum=1),
        y=alt.Y("left:Q", scale=down, axis=None),
        y2="right:Q",
        opacity=alt.Opacity("share:Q", scale=None, legend=None),
        strokeWidth=alt.value(1.8),
        tooltip=alt.Tooltip("tip:N"),
        description=alt.Description("tip:N"),
    )
    rows = [{"token": place, "row": place, "name": name} for place, name in enumerate(left)]
    rows += [{"token": -1 - place, "row": place, "name": name} for place, name in enumerate(right)]
    tokens = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("row:Q", scale=down, axis=None))

    def by_side(at_left: str, at_right: str) -> alt.ExprRef:
        return alt.ExprRef(f"datum.token < 0 ? {at_right} : {at_left}")

    texts = tokens.mark_text(
        x=by_side(f"{near - 8}", f"width - {far - 8}"),
        align=by_side("'right'", "'left'"),
        fontSize=FONT,
        color=palette.ink,
    ).encode(text="name:N")
    pointed = alt.selection_point(
        name="token", fields=["token"], on="pointerover,click", clear="pointerout", toggle=False
    )
    boxes = tokens.mark_rect(
        x=by_side("0", f"width - {far}"),
        x2=by_side(f"{near}", "width"),
        height=_LINK_ROW,
        fill=palette.heat,
    ).encode(
        fillOpacity=alt.condition(pointed, alt.value(0.2), alt.value(0), empty=False),
        tooltip=alt.value(None),
    )
    axes = (
        (localised(Text("左：", "left: ")), localised(figure.x_label)),
        (localised(Text("右：", "right: ")), localised(figure.y_label)),
    )
    layers = [lines, texts, boxes.add_params(pointed)]
    table = _link_rows(figure, localised)
    return _laid(layers, table, palette, size=size, heading=_axes(axes, size[0]))


def _link_rows(figure: Links, localised: Words) -> Iterator[Row]:
    """One row a line; the strongest last, on top."""
    ordered = sorted(figure.links, key=lambda link: link[2])
    high = figure.high or (ordered[-1][2] if ordered else 0.0) or 1.0
    for start, end, weight in ordered:
        shown = f"{number(weight, figure.digits)} {localised(figure.unit)}".rstrip()
        yield {
            "left": start,
            "right": end,
            "share": round(min(weight / high, 1.0), 3),
            "tip": printable(f"{figure.left[start]} → {figure.right[end]}: {shown}"),
        }
