"""How numbers are spelled, in report and page alike."""

from __future__ import annotations

import pytest

from qt_bert.text import number, signed


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.25, 3, "+0.250"),
        (-1.0126, 3, "−1.013"),
        (0.0004, 3, "0.000"),
        (-0.0004, 3, "0.000"),
        (0.0, 1, "0.0"),
        (3, 3, "+3"),
        (-1200, 3, "−1,200"),
        (None, 3, "—"),
    ],
)
def test_a_change_has_its_sign_where_it_shows(value, digits, shown):
    assert signed(value, digits) == shown


def test_a_number_has_no_plus():
    assert number(2.0, 1) == "2.0"
