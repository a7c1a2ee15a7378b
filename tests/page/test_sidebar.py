"""The grid of the heads left out."""

import pytest

from qt_bert.page import sidebar
from qt_bert.results.palette import LIGHT

NOBODY = {"row": -1, "column": -1}


def test_the_specification_begins_with_the_heads_left_out():
    spec = sidebar.grid_of(2, 3, frozenset({(1, 2)}), LIGHT).to_dict()
    assert spec["params"][0]["value"] == [NOBODY, {"row": 1, "column": 2}]
    assert spec["params"][0]["select"]["fields"] == ["row", "column"]
    assert spec["data"]["values"][-1] == {"row": 1, "column": 2, "name": "L1H2"}


@pytest.mark.parametrize(
    ("cells", "heads"),
    [
        ([NOBODY], frozenset()),
        ([NOBODY, {"row": 1, "column": 2}, {"row": 0, "column": 0}], frozenset({(0, 0), (1, 2)})),
        ([NOBODY, {"row": 9, "column": 0}], frozenset()),
        ([], None),
        ({}, None),
        ([{"row": "x", "column": 0}], None),
    ],
)
def test_a_selection_is_a_set_of_heads(cells, heads):
    assert sidebar.chosen_in({"selection": {"heads": cells}}, 2, 3) == heads
    assert sidebar.chosen_in(None, 2, 3) is None
