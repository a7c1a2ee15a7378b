"""The check: whether a probe fitted anew behind an eraser knows nothing, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.probes.layers_reading import LENGTH, MATCHED, Decoded, Examples, Places, Sums, Task
from qt_bert.probes.usage.reading import Draws, Encoded

GROUPS = 40


def encoded(left: list[float], *, number: bool) -> Encoded:
    """A property of one example a query; the commonest class holds 0.5, behind erasers `left`."""
    ones = np.ones((GROUPS, len(left)))
    half = (np.arange(GROUPS) % 2)[:, None].astype(float)
    spans = np.zeros((GROUPS, 1, 2), np.int64)
    texts = (("q", "t"),) * GROUPS
    places = Places("token", texts, np.arange(GROUPS), spans, np.arange(GROUPS))
    about, classes = (LENGTH, ()) if number else (MATCHED, ("no", "yes"))
    examples = Examples(about, places, np.arange(GROUPS) % 2, classes)
    share = np.array([1 - one if number else one for one in left])
    guess = Sums(ones[:, :1] if number else half, ones[:, :1], number)
    decoded = Decoded(Task(examples, examples), Sums(ones, ones, number), (), guess, np.ones(1))
    return Encoded(decoded, (), Sums(ones * share, ones, number))


def test_classes_are_right_as_often_as_the_commonest_is():
    found = encoded([0.5, 0.6, 0.75, 0.3], number=False)
    assert found.erased_well(500, 0) == [True, True, False, False]
    assert found.name == "matched"


def test_a_number_has_no_r2_above_0():
    found = encoded([0.0, -0.3, 1e-9, 0.01], number=True)
    assert found.erased_well(500, 0) == [True, True, True, False]


def test_without_resamples_only_the_share_itself_will_do():
    assert encoded([0.5, 0.55], number=False).erased_well(0, 0) == [True, False]


def test_what_needs_no_control():
    draws = Draws(probe=1, eraser=7, alone=("grade",))
    assert (draws.of_eraser("grade"), draws.of_eraser("pos")) == (0, 7)
    assert draws.probe == pytest.approx(1)
