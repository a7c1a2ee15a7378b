"""Every figure kind goes to JSON and back, and refuses shapes that do not fit."""

import json
from dataclasses import replace

import pytest

from qt_bert.codec import decode, encode
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import BarSeries, Edge, Figure, Node, head_map
from tests.figures.examples import ALL, BARS, GRAPH, HEAT_MAP

NODE = Node(name="L0H0", column=0, row=0)
LOOSE = (Edge(source="L0H0", target="L1H0", weight=1.0),)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.kind)
def test_round_trip(figure):
    stored = json.loads(json.dumps(encode(figure), allow_nan=False))
    assert stored["kind"] == figure.kind
    assert decode(Figure, stored, "figure") == figure


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(HEAT_MAP, values=((1.0,), (2.0,))), "figure 'heads'"),
        (lambda: replace(HEAT_MAP, values=()), "figure 'heads'"),
        (lambda: replace(HEAT_MAP, annotations=(("a",),)), "figure 'heads'"),
        (lambda: replace(HEAT_MAP, marked=((2, 0),)), "outside"),
        (lambda: replace(HEAT_MAP, marked=((0, -1),)), "outside"),
        (lambda: head_map("heads", ((0.5,),), marked=["H0"]), "is no head"),
        (lambda: replace(BARS, series=(BarSeries(name="a", values=(1.0,)),)), "2 labels"),
        (
            lambda: replace(
                BARS,
                series=(BarSeries(name="a", values=(1.0, 2.0), intervals=((0.0, 1.0),)),),
            ),
            "2 labels",
        ),
        (lambda: replace(GRAPH, nodes=(NODE,), edges=LOOSE), "unknown node 'L1H0'"),
        (lambda: replace(GRAPH, nodes=(NODE, NODE), edges=()), "one name"),
    ],
)
def test_a_figure_whose_parts_do_not_fit_is_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_stored_figure_that_cannot_be_read_names_its_file():
    with pytest.raises(RunFolderError, match=r"page\.json: expected HeatMap or Curve"):
        decode(Figure, {"kind": "pie"}, "page.json")
    stored = encode(HEAT_MAP) | {"columns": ["H0"]}
    with pytest.raises(RunFolderError, match=r"probes/x\.json: figure 'heads'"):
        decode(Figure, stored, "probes/x.json")
