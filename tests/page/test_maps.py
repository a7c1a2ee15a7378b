"""Heat maps of layers by heads."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.figures import known
from qt_bert.heads import Head
from qt_bert.page.maps import head_map
from qt_bert.text import Text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_none(value: float) -> None:
    assert known(value) is None and known(np.float64(value)) is None


def test_a_number_is_a_plain_float() -> None:
    assert type(known(np.float32(0.5))) is float and known(0.0) == 0.0


def test_a_map_names_its_rows_and_outlines_heads() -> None:
    values = np.array([[0.5, np.nan, 1.0], [0.0, 2.0, 3.0]])
    found = head_map("made", Text("图", "map"), "", values, marked=[Head(1, 2)], low=0.0)
    assert (found.rows, found.columns) == (("L0", "L1"), ("H0", "H1", "H2"))
    assert found.values == ((0.5, None, 1.0), (0.0, 2.0, 3.0))
    assert found.marked == ((1, 2),) and found.low == 0.0
