"""The plan's figures, from rows made by hand."""

from __future__ import annotations

import pytest

from qt_bert.models.heads import Head
from qt_bert.planning.make_plan import head_map, quality_curve
from qt_bert.planning.prune import removal_of
from qt_bert.planning.task import Functions
from qt_bert.results.kept import TeacherRef
from tests.results.made_plan import evidence

TEACHER = TeacherRef(name="t", sha256="0", layers=2, heads=3, units=8)


def test_the_chosen_line_has_a_band_and_rivals_have_none():
    made = evidence(2, 4)
    heads = [row for row in made.grid if row.of == "heads"]
    curve = quality_curve(heads, made.rivals, 160)
    names = [series.name.en for series in curve.series]
    assert names == ["as this plan chooses", "gradient importance", "random", "expected beforehand"]
    chosen, gradient, random, expected = curve.series
    assert [(point.x, point.y) for point in chosen.points] == [
        (pytest.approx(87.5), -0.011),
        (pytest.approx(75), -0.022),
    ]
    assert chosen.points[0].low is not None and gradient.points[0].low is None
    assert not gradient.dashed and random.dashed and expected.dashed
    assert quality_curve([], (), 160) is None


def test_heads_that_go_are_blank_and_functions_have_letters():
    effects = {Head(layer, head): 0.001 * head for layer in range(2) for head in range(3)}
    functions = Functions("run", {"matching": ("L0H1", "L1H2"), "reader": ("L1H2",)})
    drawn = head_map(TEACHER, removal_of([Head(0, 1)], [1]), effects, functions)
    assert drawn.values == ((0.0, None, 2.0), (None, None, None))
    assert drawn.annotations == (("", "M", ""), ("", "", "MR"))
    assert drawn.marked == ((0, 1), (1, 2))
    assert "M matching, R reader" in drawn.note.en


def test_one_head_of_large_effect_does_not_hide_the_others():
    teacher = TeacherRef(name="t", sha256="0", layers=4, heads=10, units=8)
    effects = {Head(layer, head): 0.01 for layer in range(4) for head in range(10)}
    drawn = head_map(teacher, removal_of(), effects | {Head(0, 0): 5.0}, Functions("none"))
    assert drawn.high == pytest.approx(10) and drawn.low == pytest.approx(-10)
    assert drawn.annotations is None and drawn.marked == ()
