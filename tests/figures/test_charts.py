import json
import subprocess
import sys
from dataclasses import replace

import pytest

from qt_bert.charts import CLICKED, chart
from qt_bert.figures import Mark, Tokens, head_map
from qt_bert.results.palette import DARK, LIGHT, Palette
from qt_bert.text import Text
from tests.figures.examples import ALL, BARS, CURVE, EMPTY, HEAT_MAP, HOSTILE, LINKS, SCATTER

DRAWN = [figure for figure in ALL if not isinstance(figure, Tokens)]


def spec_of(figure, language="zh", palette: Palette = LIGHT, **more):
    """The specification, checked against the schema of Vega-Lite."""
    return chart(figure, language, palette, **more).to_dict()


def rows_of(spec):
    return spec["data"]["values"]


def parameter(spec, name):
    (value,) = (each["value"] for each in spec["params"] if each["name"] == name)
    return value


def layers_of(spec, kind):
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


@pytest.mark.parametrize(("language", "palette"), [("zh", LIGHT), ("en", DARK), ("both", LIGHT)])
@pytest.mark.parametrize("figure", DRAWN, ids=lambda figure: figure.kind)
def test_every_kind_is_a_valid_specification(figure, language, palette):
    spec = spec_of(figure, language, palette)
    assert spec["config"]["aria"] is False
    assert palette.muted in json.dumps(spec["config"])


@pytest.mark.parametrize("figure", EMPTY, ids=lambda figure: figure.kind)
def test_an_empty_figure_is_drawn(figure):
    assert rows_of(spec_of(figure)) == []


def test_a_figure_is_imported_without_the_libraries_that_draw():
    code = "import qt_bert.figures, qt_bert.charts, qt_bert.token_rows, sys; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"altair", "vl_convert", "torch", "pandas"} & set(modules)


@pytest.mark.parametrize("figure", DRAWN, ids=lambda figure: figure.kind)
def test_labels_stand_in_no_formula(figure):
    parts = _parts({key: value for key, value in spec_of(figure).items() if key != "datasets"})
    keys = ("calculate", "filter", "test", "expr", "labelExpr")
    formulas = [value for part in parts for key, value in part.items() if key in keys]
    assert "<img" not in json.dumps(formulas, ensure_ascii=False)


def test_a_heat_map_holds_its_cells_numbers_and_labels():
    spec = spec_of(HEAT_MAP, "en", DARK)
    cells = rows_of(spec)
    assert [cell["shown"] for cell in cells] == ["0.50", "—", "−1.00", "0.25", "0.00", "2.00"]
    hues = ["positive", "missing", "negative", "positive", "positive", "positive"]
    assert [cell["hue"] for cell in cells] == hues
    assert [cell["share"] for cell in cells] == [0.25, 1.0, 0.5, 0.125, 0.0, 1.0]
    assert [(cell["row"], cell["column"]) for cell in cells if "marked" in cell] == [(1, 2)]
    assert cells[-1]["tip"] == "L1 → 京: 2.00 points (9)"
    assert cells[1]["tip"] == f"L0 → {HOSTILE}: — points (0)"
    assert parameter(spec, "rows") == ["L0", "L1"]
    fill = spec["layer"][0]["encoding"]["fill"]["scale"]
    assert dict(zip(fill["domain"], fill["range"], strict=True))["negative"] == DARK.negative
    assert spec["title"]["text"] == ["rows: layer · columns: head"]


def test_a_click_can_be_told_from_the_one_before_it():
    spec = spec_of(HEAT_MAP, clicks=3)
    (click,) = (each for each in spec["params"] if each["name"] == CLICKED)
    assert click["select"]["fields"] == ["row", "column", "click"]
    assert {cell["click"] for cell in rows_of(spec)} == {3}
    assert all(each["name"] != CLICKED for each in spec_of(HEAT_MAP)["params"])


def test_a_map_of_many_cells_has_tips_and_no_numbers():
    spec = spec_of(head_map("many", ((0.5,) * 60,) * 60))
    assert len(rows_of(spec)) == 3600 and "shown" not in rows_of(spec)[0]
    assert rows_of(spec)[61]["tip"] == "L1 → H1: 0.50"
    texts = [layer["encoding"]["text"]["field"] for layer in layers_of(spec, "text")]
    assert set(texts) == {"text"}  # those of the legend


def test_bars_carry_values_and_intervals():
    spec = spec_of(BARS)
    rows = rows_of(spec)
    assert [(row["category"], row["series"]) for row in rows] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert [row["x"] for row in rows] == [10.0, None, -5.0, 7.0]
    assert [row["low"] for row in rows] == [None, None, None, 6.0]
    assert [row["end"] for row in rows] == [10.0, 0.0, -5.0, 8.0]
    assert [row["side"] for row in rows] == ["right", "right", "left", "right"]
    assert rows[3]["tip"] == "2 · 之后: 7.00 [6.00, 8.00]"
    assert spec["title"]["text"] == ["概率 (%) · 按档"]
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < -5 and high > 10
    assert len(layers_of(spec, "rule")) == 2  # zero, and the intervals


def test_dashed_series_are_grey_and_differ():
    line = CURVE.series[0]
    dashed = [replace(CURVE.series[1], name=name) for name in "ab"]
    spec = spec_of(replace(CURVE, series=(line, *dashed, line)))
    (lines,) = layers_of(spec, "line")
    colours = lines["encoding"]["color"]["scale"]["range"]
    dashes = lines["encoding"]["strokeDash"]["scale"]["range"]
    assert colours == [LIGHT.series[0], LIGHT.muted, LIGHT.muted, LIGHT.series[1]]
    assert dashes[0] == dashes[3] == [1, 0] and dashes[1] != dashes[2]


def test_a_curve_holds_its_points_and_bands():
    spec = spec_of(CURVE, "en")
    rows = rows_of(spec)
    points = [(row["series"], row["x"], row["y"], row["low"]) for row in rows]
    assert points == [(0, 0, 1, 0.5), (0, 2, 3, None), (1, 0, 1, None)]
    assert rows[0]["tip"] == "=1+1 0: 1 [0.500, 1.500], n = 9"
    assert layers_of(spec, "area")[0]["encoding"]["y2"] == {"field": "high"}
    assert not layers_of(spec_of(replace(CURVE, series=CURVE.series[1:])), "area")


@pytest.mark.parametrize("figure", [CURVE, SCATTER], ids=lambda figure: figure.kind)
def test_axes_span_all_there_is(figure):
    """Given ends: no missing value leaves a scale without an extent."""
    for layer in spec_of(figure)["layer"]:
        for axis in ("x", "y"):
            place = layer["encoding"].get(axis)
            if place and "scale" in place:
                low, high = place["scale"]["domain"]
                values = [row[axis] for row in rows_of(spec_of(figure))]
                assert low <= min(values) and max(values) <= high and low < high


def test_marks_carry_their_series_and_label():
    spec = spec_of(SCATTER, "en", DARK)
    rows = rows_of(spec)
    assert [(row["series"], row["x"], row["y"]) for row in rows] == [
        (0, 1, 2),
        (1, 3, -1),
        (0, 0, 0),
    ]
    assert [row.get("label") for row in rows] == [HOSTILE[:16] + "…", None, None]
    assert parameter(spec, "series_names") == ["syntax", HOSTILE]
    (marks,) = layers_of(spec, "point")
    assert marks["encoding"]["shape"]["scale"]["range"] == ["circle", "square"]
    assert marks["encoding"]["color"]["scale"]["range"] == list(DARK.series[:2])
    assert marks["encoding"]["x"]["axis"]["title"] == "decodable (%)"


def test_a_line_is_as_opaque_as_its_weight_and_goes_with_its_tokens():
    spec = spec_of(LINKS, "en")
    weak, strong = rows_of(spec)
    assert (strong["left"], strong["right"], strong["share"]) == (0, 1, 0.5)
    assert strong["tip"] == "京 → 京: 0.50 attention" and weak["share"] == 0.25
    tokens = layers_of(spec, "rect")[0]["data"]["values"]
    assert [token["token"] for token in tokens] == [0, 1, -1, -2, -3]


def _parts(value):
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _parts(item)


def test_a_label_that_would_cover_another_is_left_to_its_tip():
    places = {"first": (0, 0), "covered": (0.1, 0.01), "above": (0.1, 5), "far": (9, 0)}
    marks = tuple(
        Mark(x=x, y=y, series=Text("词", "words"), label=Text(name, name))
        for name, (x, y) in places.items()
    )
    rows = rows_of(spec_of(replace(SCATTER, points=marks), "en"))
    assert [row.get("label") for row in rows] == ["first", None, "above", "far"]
