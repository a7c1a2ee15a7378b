"""Charts: well-formed, escaped, and with their numbers in the right places."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from qt_bert.report.charts import draw
from qt_bert.report.charts.canvas import wrap
from qt_bert.report.charts.legend import series_styles
from qt_bert.results import Bars, Curve, Figure, Graph, HeatMap, Scatter, Text, Tokens
from qt_bert.results.figures import (
    BarSeries,
    Edge,
    Mark,
    Node,
    Point,
    Series,
    Token,
    TokenLine,
)
from qt_bert.results.palette import shape_of

BAD = "</text><script>&\x00\ud800"
TITLE = Text(f"标题{BAD}", f"title{BAD}")


def heat_map(**change: object) -> HeatMap:
    fields: dict[str, object] = {
        "name": "heat",
        "title": TITLE,
        "x_label": BAD,
        "y_label": BAD,
        "unit": BAD,
        "columns": (BAD, "H1"),
        "rows": (BAD, "L1"),
        "values": ((1.0, None), (-2.0, 0.0)),
        "annotations": ((BAD, ""), ("", "")),
        "marked": ((0, 0),),
        "scale": "diverging",
    }
    return HeatMap(**(fields | change))  # type: ignore[arg-type]


def curve(*points: Point) -> Curve:
    line = Series(name=BAD, points=points)
    return Curve(
        name="curve", title=TITLE, x_label=BAD, y_label=BAD, unit=BAD, x_unit=BAD, series=(line,)
    )


def bars(
    *values: float | None, intervals: tuple[tuple[float, float] | None, ...] | None = None
) -> Bars:
    return Bars(
        name="bars",
        title=TITLE,
        x_label=BAD,
        y_label=BAD,
        unit=BAD,
        categories=(BAD,) * len(values),
        series=(BarSeries(name=BAD, values=values, intervals=intervals),),
    )


def tokens(*texts: str) -> Tokens:
    line = TokenLine(
        name=BAD, tokens=tuple(Token(text=t, value=0.5, marked=True, ends_word=True) for t in texts)
    )
    return Tokens(name="tokens", title=TITLE, unit=BAD, lines=(line,))


def graph(*weights: float) -> Graph:
    nodes = tuple(Node(name=f"{BAD}{i}", column=i, row=0) for i in range(len(weights) + 1))
    edges = tuple(
        Edge(source=nodes[i].name, target=nodes[i + 1].name, weight=weight)
        for i, weight in enumerate(weights)
    )
    return Graph(
        name="graph", title=TITLE, x_label=BAD, y_label=BAD, unit=BAD, nodes=nodes, edges=edges
    )


def scatter(*points: Mark) -> Scatter:
    return Scatter(
        name="scatter",
        title=TITLE,
        x_label=BAD,
        y_label=BAD,
        x_unit=BAD,
        y_unit=BAD,
        points=points,
    )


FIGURES: dict[str, Figure] = {
    "heat map": heat_map(),
    "heat map of one value": heat_map(values=((0.0, 0.0), (0.0, 0.0)), scale="sequential"),
    "heat map of nothing": heat_map(rows=(), columns=(), values=(), annotations=None, marked=()),
    "curve": curve(
        Point(x=0, y=0.5, low=0.4, high=0.6, n=3), Point(x=10, y=0.7, low=0.6, high=0.8)
    ),
    "curve of one point": curve(Point(x=3, y=0.5)),
    "curve of nothing": curve(),
    "bars": bars(3.0, -2.0, None, intervals=((2.0, 4.0), (-3.0, -1.0), None)),
    "bars of zero": bars(0.0),
    "bars of nothing": bars(),
    "tokens": tokens("紫", BAD, "x" * 500, ""),
    "tokens of nothing": tokens(),
    "graph": graph(0.5, -1.0),
    "graph without weight": graph(0.0),
    "graph of one node": graph(),
    "scatter": scatter(
        Mark(x=1, y=2, series=BAD, label=BAD, x_low=0.5, x_high=1.5, y_low=1, y_high=3),
        Mark(x=1, y=2, series="other", label="x" * 200),
    ),
    "scatter of many series": scatter(*(Mark(x=i, y=-i, series=str(i)) for i in range(40))),
    "scatter of nothing": scatter(),
}


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_every_chart_is_well_formed_and_escaped(figure: Figure) -> None:
    root = ElementTree.fromstring(draw(figure).svg())
    assert {element.tag for element in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "line",
        "path",
        "circle",
        "text",
    }
    assert root.get("role") == "img"
    assert root.get("aria-label", "").startswith("标题")


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_no_coordinate_is_lost(figure: Figure) -> None:
    assert "nan" not in draw(figure).svg()
    assert "inf" not in draw(figure).svg()


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_boxes_stay_inside_the_picture(figure: Figure) -> None:
    canvas = draw(figure)
    root = ElementTree.fromstring(canvas.svg())
    width, height = (float(size) for size in root.get("viewBox", "").split()[2:])
    for box in root.iter("rect"):
        x, y, w, h = (float(box.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and w >= 0 and h >= 0
        assert x + w <= width + 0.1
        assert y + h <= height + 0.1


def cells(figure: HeatMap, style: str) -> list[str | None]:
    root = ElementTree.fromstring(draw(figure).svg())
    return [box.get("fill-opacity") for box in root.iter("rect") if box.get("class") == style]


def test_diverging_colours_are_symmetric_about_zero() -> None:
    assert cells(heat_map(), "positive through") == ["0.500", "0.000"]
    assert cells(heat_map(), "negative through") == ["1.000"]


def test_sequential_colours_span_the_given_range() -> None:
    figure = heat_map(values=((0.0, 25.0), (50.0, 200.0)), scale="sequential", low=0.0, high=100.0)
    assert cells(figure, "heat through") == ["0.000", "0.250", "0.500", "1.000"]


def test_a_missing_cell_is_marked_as_missing() -> None:
    assert cells(heat_map(), "missing through") == ["1.000"]


def test_a_bar_is_as_long_as_its_value() -> None:
    root = ElementTree.fromstring(draw(bars(2.0, 1.0)).svg())
    lengths = [float(box.get("width", "0")) for box in root.iter("rect")]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.2)


def test_a_negative_bar_ends_at_zero() -> None:
    root = ElementTree.fromstring(draw(bars(-3.0, 3.0)).svg())
    left, right = list(root.iter("rect"))
    end = float(left.get("x", "0")) + float(left.get("width", "0"))
    assert end == pytest.approx(float(right.get("x", "0")), abs=0.2)


def test_bilingual_words_are_drawn_in_both_languages() -> None:
    root = ElementTree.fromstring(draw(heat_map(unit=Text("对", "pairs"))).svg())
    styles = {text.text: text.get("class") for text in root.iter("text")}
    assert styles["对"] == "muted small zh"
    assert styles["pairs"] == "muted small en"


def test_a_token_keeps_its_word_end() -> None:
    root = ElementTree.fromstring(draw(tokens("紫", "熨斗")).svg())
    assert [line.get("class") for line in root.iter("line")] == ["word-end", "word-end"]


def test_a_wide_map_scrolls_and_a_narrow_one_shrinks() -> None:
    names = tuple(str(i) for i in range(60))
    wide = heat_map(columns=names, rows=("a",), values=((0.0,) * 60,), annotations=None, marked=())
    canvas = draw(wide)
    assert f"min-width:{canvas.width:g}px" in canvas.svg()
    assert f"min-width:{draw(heat_map()).width:g}px" not in draw(heat_map()).svg()


def texts(figure: Figure) -> list[str]:
    root = ElementTree.fromstring(draw(figure).svg())
    return [text.text or "" for text in root.iter("text")]


def test_columns_and_rows_without_a_node_take_no_room() -> None:
    nodes = (Node(name="L0H3", column=3, row=11), Node(name="L9H90", column=90, row=2))
    far = replace(graph(), nodes=nodes, edges=(Edge(source="L0H3", target="L9H90", weight=-0.25),))
    near = replace(
        far, nodes=(replace(nodes[0], column=0, row=1), replace(nodes[1], column=1, row=0))
    )
    assert draw(far).svg() == draw(near).svg()


def test_an_arrow_carries_its_number_in_print_too() -> None:
    assert "\N{MINUS SIGN}0.50" in texts(graph(-0.5))


def test_a_label_wider_than_its_cell_stands_upright() -> None:
    names = ("[CLS]", *"我在伊朗长大", "[SEP]", *"假期电影我在伊朗长大", "[SEP]")
    figure = heat_map(
        columns=names, rows=("a",), values=((0.5,) * len(names),), annotations=None, marked=()
    )
    root = ElementTree.fromstring(draw(figure).svg())
    turned = [text.text for text in root.iter("text") if "rotate" in text.get("transform", "")]
    assert turned == ["[CLS]", "[SEP]", "[SEP]"]
    assert {"我", "影", "大"} <= set(texts(figure))


def test_twelve_heads_fit_beside_another_figure() -> None:
    heads = range(12)
    for digits in (1, 2, 3):
        figure = heat_map(
            columns=tuple(f"H{i}" for i in heads),
            rows=tuple(f"L{i}" for i in heads),
            values=((-0.123,) * 12,) * 12,
            annotations=None,
            marked=(),
            digits=digits,
        )
        assert draw(figure).width <= 540
        assert f"\N{MINUS SIGN}{0.123:.{digits}f}" in texts(figure)


def test_a_long_name_takes_two_lines_and_loses_nothing() -> None:
    words = "without others of their layers (mean)"
    figure = replace(bars(1.0), categories=(words,))
    assert words not in texts(figure)
    assert words in " ".join(texts(figure))


def test_what_does_not_fit_in_two_lines_is_cut() -> None:
    assert wrap("字" * 40, width=120, most=2) == ["字" * 10, "字" * 9 + "…"]
    assert wrap("a word", width=500, most=2) == ["a word"]
    assert wrap("", width=10, most=2) == []
    assert wrap("同层随机的头（平均）", width=110, most=2) == ["同层随机的头（平", "均）"]


def test_dashed_lines_differ() -> None:
    assert series_styles([False, True, True, False]) == [
        "series-1",
        "reference dash-1",
        "reference dash-2",
        "series-2",
    ]


def test_one_series_that_the_axis_names_needs_no_legend() -> None:
    named = replace(bars(1.0), y_label="alone", unit="")
    other = replace(named, series=(BarSeries(name="other", values=(1.0,)),))
    alone = replace(named, series=(BarSeries(name="alone", values=(1.0,)),))
    assert "other" in texts(other)
    assert "alone" not in texts(alone)


def test_a_unit_that_repeats_the_label_is_said_once() -> None:
    share = Text("比例", "share")
    figure = replace(bars(1.0), y_label=share, unit=share, x_label="k")
    assert {"比例 · 按k", "share by k"} <= set(texts(figure))


def paths(figure: Figure, style: str) -> list[str]:
    root = ElementTree.fromstring(draw(figure).svg())
    return [shape.get("d", "") for shape in root.iter("path") if shape.get("class") == style]


def corners(path: str) -> list[tuple[float, float]]:
    places = path.removeprefix("M").removesuffix(" Z").split(" L")
    return [(float(x), float(y)) for x, y in (place.split(" ") for place in places)]


def test_a_mark_lies_at_its_place_in_its_series_colour() -> None:
    low, high, other = (
        Mark(x=0, y=0, series="a"),
        Mark(x=10, y=1, series="a"),
        Mark(x=5, y=0.5, series="b"),
    )
    figure = scatter(low, high, other)
    root = ElementTree.fromstring(draw(figure).svg())
    first, last = (
        (float(dot.get("cx", "nan")), float(dot.get("cy", "nan")))
        for dot in root.iter("circle")
        if dot.get("class") == "series-1 spot"
    )
    (_, square) = paths(figure, "series-2 spot")
    middle = [sum(axis) / len(axis) for axis in zip(*corners(square), strict=True)]
    assert first[0] < last[0] and first[1] > last[1]  # more is right, and up
    assert middle == pytest.approx([(first[i] + last[i]) / 2 for i in (0, 1)], abs=0.2)
    assert len(corners(square)) == 4


def test_in_a_crowd_only_named_marks_tell_their_numbers() -> None:
    few = [Mark(x=i, y=i, series="a") for i in range(3)]
    many = [Mark(x=i, y=i, series="a", label="L2H1" if i == 5 else None) for i in range(99)]

    def tips(*marks: Mark) -> int:
        root = ElementTree.fromstring(draw(scatter(*marks)).svg())
        return sum(dot.find("title") is not None for dot in root.iter("circle"))

    assert (tips(*few), tips(*many)) == (3, 1)


def test_intervals_are_crosses_through_the_mark() -> None:
    bounded = Mark(x=1, y=2, series="a", x_low=0, x_high=4, y_low=1, y_high=3)
    root = ElementTree.fromstring(draw(scatter(bounded)).svg())
    across, up = (line for line in root.iter("line") if line.get("class") == "series-1 reach")
    assert across.get("y1") == across.get("y2") and up.get("x1") == up.get("x2")
    before = float(up.get("x1", "0")) - float(across.get("x1", "0"))
    behind = float(across.get("x2", "0")) - float(up.get("x1", "0"))
    assert behind == pytest.approx(3 * before, abs=0.3)


def test_labels_of_near_marks_do_not_cover_each_other() -> None:
    ends = (Mark(x=0, y=0, series="a"), Mark(x=100, y=100, series="a"))
    near = (Mark(x=50, y=50, series="a", label="L2H1"), Mark(x=51, y=50, series="a", label="L3H7"))
    root = ElementTree.fromstring(draw(scatter(*ends, *near)).svg())
    places = {
        t.text: float(t.get("x", "0")) for t in root.iter("text") if t.text in ("L2H1", "L3H7")
    }
    assert abs(places["L2H1"] - places["L3H7"]) > 28


def test_a_label_that_has_no_room_is_told_by_its_mark() -> None:
    crowd = [Mark(x=0.01 * i, y=0, series="a", label=f"L0H{i + 10}") for i in range(30)]
    root = ElementTree.fromstring(draw(scatter(*crowd, Mark(x=9, y=9, series="a"))).svg())
    names = [t for t in root.iter("text") if (t.text or "").startswith("L0H")]
    tips = {(tip.text or "").split(" · ")[0] for tip in root.iter("title")}
    places = [(float(t.get("x", "0")), float(t.get("y", "0"))) for t in names]
    assert 1 < len(names) < 30 and len({name for name in tips if name.startswith("L0H")}) == 30
    for i, one in enumerate(places):
        assert all(abs(one[0] - x) > 20 or abs(one[1] - y) >= 14 for x, y in places[:i])


def test_no_two_of_many_series_look_alike() -> None:
    styles = series_styles([False] * 36)
    assert len({(styles[i], shape_of(i)) for i in range(36)}) == 36
