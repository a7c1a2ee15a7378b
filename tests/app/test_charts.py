"""Figures as Vega-Lite: valid specifications, whose texts are data and never formulas."""

from __future__ import annotations

import json
from dataclasses import replace

import altair
import pytest

from qt_bert.app.draw import _CHARTS, labels
from qt_bert.app.draw import heat_map as heat_maps
from qt_bert.app.draw import tokens as token_charts
from qt_bert.app.draw.look import Look
from qt_bert.results.figures import HeatMap, Token, TokenLine, Tokens
from qt_bert.results.palette import DARK, LIGHT
from qt_bert.results.text import Text
from tests.app.figures import ALL, BARS, CURVE, GRAPH, HEAT_MAP, HOSTILE, SCATTER, TOKENS

ZH, EN = Look("zh", LIGHT), Look("en", DARK, dark=True)


@pytest.mark.parametrize("look", [ZH, EN])
@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.kind)
def test_every_kind_is_a_valid_specification(figure, look):
    chart = _CHARTS[type(figure)](figure, look)
    altair.LayerChart.from_dict(chart.spec | {"data": {"values": []}})  # raises where it is not


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.kind)
def test_an_empty_figure_is_drawn(figure):
    empty = {
        "heat_map": {"rows": (), "values": (), "annotations": None, "marked": ()},
        "bars": {"categories": (), "series": ()},
        "curve": {"series": ()},
        "tokens": {"lines": ()},
        "graph": {"nodes": (), "edges": ()},
        "scatter": {"points": ()},
    }[figure.kind]
    chart = _CHARTS[type(figure)](replace(figure, **empty), ZH)
    altair.LayerChart.from_dict(chart.spec | {"data": {"values": []}})
    assert chart.data.num_rows == 0


def test_a_heat_map_holds_its_cells_numbers_and_labels():
    chart = heat_maps.chart_of(HEAT_MAP, EN)
    cells = chart.data.to_pylist()
    assert [cell["value"] for cell in cells] == [0.5, None, -1.0, 0.25, 0.0, 2.0]
    assert [cell["shown"] for cell in cells] == ["0.50", "—", "−1.00", "0.25", "0.00", "2.00"]
    assert [(c["row"], c["column"]) for c in cells if c["marked"]] == [(1, 2)]
    assert chart.spec["params"][1]["value"] == ["H0", HOSTILE, "京"]
    cells, touched = (chart.spec["layer"][place]["encoding"] for place in (0, -1))
    assert cells["color"]["condition"]["scale"]["domain"] == [-2.0, 0.0, 2.0]
    assert [tip["title"] for tip in touched["tooltip"]] == ["layer", "head", "points", "n"]


def test_a_label_wider_than_its_place_stands_upright():
    params, axis = labels.beside("columns", ["[CLS]", "京"], "top")
    assert params[0]["value"] == ["[CLS]", "京"]
    assert params[1] == {"name": "columns_widths", "value": [34, 0]}
    assert axis["labelAngle"] == {"expr": "columns_widths[datum.value] > width / 2 - 1 ? -90 : 0"}
    assert "'left' : 'center'" in axis["labelAlign"]["expr"]
    _, below = labels.beside("columns", ["京"], "bottom")
    assert "'right' : 'center'" in below["labelAlign"]["expr"]
    (_, empty) = labels.beside("columns", [], "top")
    assert "/ 1 " in empty["labelAngle"]["expr"]


def test_labels_stand_in_no_formula():
    for figure in ALL:
        spec = _CHARTS[type(figure)](figure, ZH).spec
        formulas = [
            value
            for part in _parts({key: spec[key] for key in spec if key != "params"})
            for key, value in part.items()
            if key in ("calculate", "filter", "test", "expr", "labelExpr")
        ]
        assert "<img" not in json.dumps(formulas, ensure_ascii=False)


def test_a_click_can_be_told_from_the_one_before_it():
    chart = heat_maps.chart_of(HEAT_MAP, ZH, clicks=3)
    select = chart.spec["layer"][-1]["params"][0]["select"]
    assert select["fields"] == ["row", "column", "click"]
    assert set(chart.data.column("click").to_pylist()) == {3}
    assert "params" not in heat_maps.chart_of(HEAT_MAP, ZH).spec["layer"][-1]


def test_a_map_of_many_cells_has_tips_and_no_numbers():
    side = 60
    figure = HeatMap(
        name="long",
        title=Text("", ""),
        x_label="",
        y_label="",
        unit="%",
        columns=tuple(map(str, range(side))),
        rows=tuple(map(str, range(side))),
        values=((0.5,) * side,) * side,
    )
    chart = heat_maps.chart_of(figure, ZH)
    assert chart.data.num_rows == side**2
    assert "shown" not in chart.data.column_names
    assert not any(layer["mark"]["type"] == "text" for layer in chart.spec["layer"])


def test_bars_carry_values_and_intervals():
    chart = _CHARTS[type(BARS)](BARS, ZH)
    found = [(r["category"], r["series"], r["value"], r["low"]) for r in chart.data.to_pylist()]
    assert found == [(0, 0, 10.0, None), (1, 0, None, None), (0, 1, -5.0, None), (1, 1, 7.0, 6.0)]
    length = chart.spec["layer"][0]["encoding"]["y"]
    assert length["axis"]["title"] == "概率 (%)"
    assert chart.spec["layer"][0]["mark"]["width"] == {"band": 1}


def test_a_dashed_series_is_grey():
    scale = _CHARTS[type(CURVE)](CURVE, ZH).spec["encoding"]["color"]["scale"]
    assert scale["range"] == [LIGHT.series[0], LIGHT.muted]


def test_tokens_take_whole_units_and_long_ones_are_cut():
    assert token_charts.units_of(Token(text="京")) == 2
    assert token_charts.units_of(Token(text="a")) == 2
    assert token_charts.units_of(Token(text="a" * 90)) == 16
    rows = token_charts.chart_of(TOKENS, ZH).data.to_pylist()
    assert [row["name"] for row in rows if row["units"] == 0] == ["查询", HOSTILE]
    boxes = [row for row in rows if row["units"]]
    assert boxes[2]["text"].endswith("…") and boxes[2]["whole"] == "a" * 90
    assert boxes[0]["shown"] == "0.50 份额"


def test_lines_wrap_at_any_width():
    line = TokenLine(
        name="", tokens=tuple(Token(text=c) for c in "京东小哥") + (Token(text="abcdef"),)
    )
    figure = Tokens(name="t", title=Text("", ""), unit="", lines=(line, line))
    wide = [(0, 0), (1, 0), (1, 2), (1, 4), (1, 6), (1, 8)]
    assert token_charts.wrapped(figure, 20) == wide + [(row + 2, unit) for row, unit in wide]
    narrow = [(0, 0), (1, 0), (1, 2), (1, 4), (2, 0), (2, 2)]
    assert token_charts.wrapped(figure, 7)[:6] == narrow
    spec = token_charts.chart_of(figure, ZH).spec
    assert spec["params"][0]["value"][0] == [
        r * 1000 + u for r, u in token_charts.wrapped(figure, 5)
    ]


def test_control_characters_of_a_token_are_replaced():
    line = TokenLine(name="", tokens=(Token(text="a\x00\u202eb"),))
    figure = Tokens(name="t", title=Text("", ""), unit="", lines=(line,))
    (_, box) = token_charts.chart_of(figure, ZH).data.to_pylist()
    assert box["text"] == "a\ufffd\ufffdb"


def test_an_arrow_is_as_wide_as_its_weight():
    rows = _CHARTS[type(GRAPH)](GRAPH, ZH).data.to_pylist()
    (edge,) = [row for row in rows if row["kind"] == "edge"]
    assert (edge["x"], edge["y"], edge["x2"], edge["y2"]) == (0, 1, 1, 0)
    assert edge["weight"] == -0.5 and edge["width"] == 5.0


def test_marks_carry_their_series_interval_and_label():
    chart = _CHARTS[type(SCATTER)](SCATTER, EN)
    rows = chart.data.to_pylist()
    assert [(r["series"], r["x"], r["y"]) for r in rows] == [(0, 1, 2), (1, 3, -1), (0, 0, 0)]
    assert [r["label"] for r in rows] == [HOSTILE, None, None]
    assert (rows[0]["x_low"], rows[0]["x_high"], rows[0]["y_low"]) == (0.5, 1.5, None)
    assert chart.spec["params"][0]["value"] == ["syntax", HOSTILE]
    across, up, marks, words = chart.spec["layer"]
    assert (across["mark"]["type"], up["mark"]["type"], words["mark"]["type"]) == (
        "rule",
        "rule",
        "text",
    )
    assert marks["encoding"]["shape"]["scale"]["range"] == ["circle", "square"]
    assert chart.spec["encoding"]["color"]["scale"]["range"] == list(DARK.series[:2])
    assert marks["encoding"]["x"]["axis"]["title"] == "decodable (%)"


def test_a_scatter_draws_no_crosses_or_labels_that_are_not_there():
    bare = replace(SCATTER, points=SCATTER.points[-1:])
    (marks,) = _CHARTS[type(bare)](bare, ZH).spec["layer"]
    assert [tip["field"] for tip in marks["encoding"]["tooltip"]] == ["series_label", "x", "y"]


def _parts(value):
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _parts(item)
