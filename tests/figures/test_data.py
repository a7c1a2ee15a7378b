import json
from dataclasses import replace

import numpy as np
import pytest

from qt_bert.codec import decode, encode
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import BarSeries, Figure, colour_end, head_map
from qt_bert.heads import Head
from tests.figures.examples import ALL, BARS, HEAT_MAP, LINKS

UNEQUAL = BarSeries(name="a", values=(1.0, 2.0), intervals=((0.0, 1.0),))


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
        (lambda: replace(BARS, series=(UNEQUAL,)), "2 labels"),
        (lambda: replace(LINKS, links=((0, 3, 1.0),)), "no tokens at the ends"),
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


def test_a_head_map_names_its_rows_and_outlines_heads():
    values = np.array([[0.5, np.nan, np.inf], [0.0, 2.0, 3.0]], np.float32)
    drawn = head_map("heads", values, marked=[Head(1, 2), "L0H1"], low=0.0)
    assert (drawn.rows, drawn.columns) == (("L0", "L1"), ("H0", "H1", "H2"))
    assert drawn.values == ((0.5, None, None), (0.0, 2.0, 3.0))
    assert type(drawn.values[0][0]) is float
    assert drawn.marked == ((1, 2), (0, 1)) and drawn.low == 0.0


def test_one_value_in_twenty_lies_beyond_the_colours():
    assert colour_end([None, *(float(value) for value in range(-39, 1))]) == 37.0
    assert colour_end([None]) is None
