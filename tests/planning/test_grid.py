"""Averages of rivals and how far the plan is ahead, functions at risk, and the plan's figures."""

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.planning.choice import CHOSEN, averaged, rival_rows
from qt_bert.planning.make_plan import at_risk, head_map, lost_by_function, risk_removals
from qt_bert.planning.prune import kept_by, lost_heads, names_of_removal, removal_of, removed_from
from qt_bert.planning.runs import MetricChange
from qt_bert.planning.task import Functions
from qt_bert.results.kept import KeptLayer, TeacherRef
from tests.results.made_plan import evidence

TEACHER = TeacherRef(name="t", sha256="0", layers=3, heads=2, units=8)


def change(value, samples):
    drawn = np.array(samples, float)
    return {"spearman": MetricChange(0.8, 0.8 + value, value, min(samples), max(samples), drawn)}


def test_draws_are_averaged_with_their_resamples():
    mean = averaged([change(-0.1, [-0.1, -0.3]), change(-0.3, [-0.1, -0.5])], "spearman")
    assert mean.absolute == pytest.approx(-0.2) and mean.value == pytest.approx(0.6)
    assert mean.samples == pytest.approx([-0.1, -0.4])
    # The central 95 % of two values, linearly between them.
    assert (mean.ci_low, mean.ci_high) == (pytest.approx(-0.3925), pytest.approx(-0.1075))
    assert averaged([{}], "spearman") is None


def rows_of(found, ours, theirs):
    row = next(row for row in evidence(2, 4).grid if row.of == "heads")
    return rival_rows([row], {CHOSEN: [[ours]], "random": [theirs]}, found)


def test_the_plan_is_held_against_the_mean_of_the_draws_pair_by_pair():
    ours, *theirs = (removal_of([Head(0, 0)]), removal_of([Head(2, 0)]), removal_of([Head(2, 1)]))
    found = {ours: change(-0.01, [-0.02, 0.0])}
    found |= dict(
        zip(theirs, (change(-0.04, [-0.06, -0.04]), change(-0.06, [-0.06, -0.04])), strict=True)
    )
    [made] = rows_of(found, ours, theirs)
    assert (made.way, made.kept) == ("random", 7)
    assert made.measured.change == pytest.approx(-0.05)
    assert made.ahead.change == pytest.approx(0.04)
    assert made.ahead.base == pytest.approx(0.75) and made.ahead.value == pytest.approx(0.79)
    assert (made.ahead.ci_low, made.ahead.ci_high) == (pytest.approx(0.04), pytest.approx(0.04))
    assert rows_of({one: {} for one in found}, ours, theirs) == ()


def test_without_an_interval_nothing_made_of_it_has_one():
    none = {"spearman": MetricChange(0.8, 0.7, -0.1, None, None, np.array([-0.1, -0.1]))}
    known = change(-0.1, [-0.2, 0.0])
    assert averaged([none, known], "spearman").ci_low is None
    ours, theirs = removal_of([Head(0, 0)]), removal_of([Head(2, 0)])
    [made] = rows_of({ours: known, theirs: none}, ours, [theirs])
    assert made.ahead.ci_high is None


def test_functions_at_risk_are_those_whose_heads_go():
    functions = Functions(
        "run", {"matching": ("L0H0", "L1H1"), "order": ("L2H0",), "reader": ("L1H0",)}
    )
    lost = lost_by_function(functions, removal_of([Head(0, 0)], [2]), TEACHER)
    assert lost == {"matching": ("L0H0",), "order": ("L2H0",), "reader": ()}
    removals = risk_removals(lost)
    assert removals == {"matching": removal_of([Head(0, 0)]), "order": removal_of([Head(2, 0)])}
    measured = {removals["matching"]: change(-0.2, [-0.2]), removals["order"]: {}}
    rows = at_risk(functions, lost, measured)
    assert [row.name for row in rows] == ["matching", "order", "reader"]
    assert rows[0].measured.change == -0.2 and rows[1].measured is None is rows[2].measured


def test_heads_of_layers_that_go_are_gone_with_them():
    removal = removal_of([Head(1, 1), Head(0, 0), Head(1, 1), Head(2, 0)], [2])
    assert removal.heads == (Head(0, 0), Head(1, 1)) and removal.blocks == (2,)
    assert names_of_removal(removal) == ("L2", "L0H0", "L1H1")
    assert lost_heads(removal, TEACHER) == {"L0H0", "L1H1", "L2H0", "L2H1"}


def test_what_stays_and_back():
    removal = removal_of([Head(0, 0), Head(0, 1)], [1])
    kept = kept_by(removal, TEACHER)
    assert kept == (KeptLayer(layer=0, heads=()), KeptLayer(layer=2, heads=(0, 1)))
    assert removed_from(kept, TEACHER) == removal


def test_heads_that_go_are_blank_and_functions_have_letters():
    teacher = TeacherRef(name="t", sha256="0", layers=2, heads=3, units=8)
    effects = {Head(layer, head): 0.001 * head for layer in range(2) for head in range(3)}
    functions = Functions("run", {"matching": ("L0H1", "L1H2"), "reader": ("L1H2",)})
    drawn = head_map(teacher, removal_of([Head(0, 1)], [1]), effects, functions)
    assert drawn.values == ((0.0, None, 2.0), (None, None, None))
    assert drawn.annotations == (("", "M", ""), ("", "", "MR"))
    assert drawn.marked == ((0, 1), (1, 2))
    assert "M matching, R reader" in drawn.note.en
