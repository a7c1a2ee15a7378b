"""Every figure kind goes to JSON and back, and refuses shapes that do not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qt_bert.codec import decode
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import (
    Bars,
    BarSeries,
    Curve,
    Edge,
    Figure,
    Graph,
    HeatMap,
    Mark,
    Node,
    Point,
    Scatter,
    Series,
    Token,
    TokenLine,
    Tokens,
)
from qt_bert.text import Text

TITLE = Text("标题", "title")
HEAT: dict[str, Any] = {
    "name": "heat",
    "title": TITLE,
    "x_label": "head",
    "y_label": Text("层", "layer"),
    "unit": "%",
    "columns": ("H0", "H1"),
    "rows": ("L0",),
    "values": ((1.0, None),),
}
FIGURES: list[Figure] = [
    HeatMap(**HEAT, annotations=(("a", "b"),), marked=((0, 1),), scale="diverging", low=-1.0),
    Curve(
        name="curve",
        title=TITLE,
        x_label="k",
        y_label="accuracy",
        unit="0–1",
        series=(Series(name="a", points=(Point(x=1, y=0.5, low=0.4, high=0.6, n=10),)),),
        note=Text("注", "note"),
    ),
    Bars(
        name="bars",
        title=TITLE,
        x_label="grade",
        y_label="p",
        unit="%",
        categories=("1", "2"),
        series=(BarSeries(name="before", values=(1.0, None), intervals=((0.5, 1.5), None)),),
    ),
    Tokens(
        name="tokens",
        title=TITLE,
        unit="weight",
        lines=(TokenLine(name="q", tokens=(Token(text="熨", value=0.3, marked=True),)),),
    ),
    Graph(
        name="graph",
        title=TITLE,
        x_label="layer",
        y_label="head",
        unit="points",
        nodes=(Node(name="L2H1", column=0, row=1), Node(name="L10H7", column=1, row=7)),
        edges=(Edge(source="L2H1", target="L10H7", weight=-0.2),),
    ),
    Scatter(
        name="scatter",
        title=TITLE,
        x_label=Text("可读出", "decodable"),
        y_label="used",
        points=(
            Mark(x=0.5, y=1, series=Text("句法", "syntax"), label="L3", y_low=0.5, y_high=1.5),
            Mark(x=0, y=0, series="b"),
        ),
        y_unit="nats",
    ),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.kind)
def test_round_trip(figure: Figure) -> None:
    stored = json.loads(json.dumps(figure.to_json(), allow_nan=False))
    assert stored["kind"] == figure.kind
    assert decode(Figure, stored, "figure") == figure


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(RunFolderError, match=r"page\.json: expected HeatMap or Curve"):
        decode(Figure, {"kind": "pie"}, "page.json")


@pytest.mark.parametrize(
    "change",
    [
        {"values": ((1.0,),)},
        {"values": ()},
        {"annotations": (("a",),)},
        {"marked": ((1, 0),)},
        {"marked": ((0, -1),)},
    ],
)
def test_a_heat_map_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="figure 'heat'"):
        HeatMap(**HEAT | change)


@pytest.mark.parametrize(
    "series",
    [
        BarSeries(name="a", values=(1.0,)),
        BarSeries(name="a", values=(1.0, 2.0), intervals=((0.0, 1.0),)),
    ],
)
def test_bars_of_another_length_are_refused(series: BarSeries) -> None:
    with pytest.raises(ArgumentError, match="2 labels"):
        Bars(
            name="bars",
            title=TITLE,
            x_label="",
            y_label="",
            unit="",
            categories=("1", "2"),
            series=(series,),
        )


@pytest.mark.parametrize(
    ("nodes", "message"), [(("L0H0",), "unknown node 'L1H0'"), (("L0H0", "L0H0"), "one name")]
)
def test_a_graph_with_loose_ends_is_refused(nodes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Graph(
            name="graph",
            title=TITLE,
            x_label="",
            y_label="",
            unit="",
            nodes=tuple(Node(name=name, column=0, row=0) for name in nodes),
            edges=(Edge(source="L0H0", target="L1H0", weight=1.0),),
        )


def test_a_scatter_names_its_series_in_order() -> None:
    scatter = FIGURES[-1]
    assert isinstance(scatter, Scatter)
    assert scatter.series == (Text("句法", "syntax"), "b")


def test_half_an_interval_is_refused() -> None:
    with pytest.raises(ArgumentError, match="one end"):
        Scatter(
            name="scatter",
            title=TITLE,
            x_label="",
            y_label="",
            points=(Mark(x=0, y=0, series="a", x_low=0),),
        )


def test_a_stored_figure_of_the_wrong_shape_names_its_file() -> None:
    stored = HeatMap(**HEAT).to_json() | {"columns": ["H0"]}
    with pytest.raises(RunFolderError, match=r"probes/x\.json: figure 'heat'"):
        decode(Figure, stored, "probes/x.json")
