"""The article's rule and the averages of rivals, on figures made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.planning.make_plan import at_risk, lost_by_function, risk_removals
from qt_bert.planning.prune import removal_of
from qt_bert.planning.rivals import averaged, lead, rule_of_thumb, rule_removals
from qt_bert.planning.runs import MetricChange
from qt_bert.planning.task import Functions
from qt_bert.results.kept import TeacherRef

TEACHER = TeacherRef(name="t", sha256="0", layers=3, heads=2, units=8)
HIGH_FIRST = [
    [Head(layer, head) for layer in (2, 1, 0) for head in order] for order in ((0, 1), (1, 0))
]


def change(value, samples):
    drawn = np.array(samples, float)
    return {"spearman": MetricChange(0.8, 0.8 + value, value, min(samples), max(samples), drawn)}


def test_the_rule_takes_as_many_high_heads_as_the_plan_takes_heads():
    found = rule_removals(TEACHER, removal_of([Head(0, 0), Head(0, 1), Head(1, 0)]), HIGH_FIRST)
    assert found == [
        removal_of([Head(2, 0), Head(2, 1), Head(1, 0)]),
        removal_of([Head(2, 0), Head(2, 1), Head(1, 1)]),
    ]


def test_the_rule_keeps_the_low_layers_where_layers_go():
    assert rule_removals(TEACHER, removal_of(blocks=[0, 1]), HIGH_FIRST) == [
        removal_of(blocks=[1, 2])
    ]
    both = rule_removals(TEACHER, removal_of([Head(1, 0)], [0]), HIGH_FIRST)
    assert both == [removal_of([Head(1, 0)], [2]), removal_of([Head(1, 1)], [2])]


def test_draws_are_averaged_with_their_resamples():
    mean = averaged([change(-0.1, [-0.1, -0.3]), change(-0.3, [-0.1, -0.5])], "spearman")
    assert mean.absolute == pytest.approx(-0.2) and mean.value == pytest.approx(0.6)
    assert mean.samples == pytest.approx([-0.1, -0.4])
    # The central 95 % of two values, linearly between them.
    assert (mean.ci_low, mean.ci_high) == (pytest.approx(-0.3925), pytest.approx(-0.1075))
    assert averaged([{}], "spearman") is None


def test_without_an_interval_nothing_made_of_it_has_one():
    none = {"spearman": MetricChange(0.8, 0.7, -0.1, None, None, np.array([-0.1, -0.1]))}
    known = change(-0.1, [-0.2, 0.0])
    assert averaged([none, known], "spearman").ci_low is None
    assert lead(none["spearman"], known["spearman"]).ci_high is None


def test_the_plan_is_held_against_the_rule_pair_by_pair():
    chosen, rule = removal_of([Head(0, 0)]), removal_of([Head(2, 0)])
    found = {chosen: change(-0.01, [-0.02, 0.0]), rule: change(-0.05, [-0.06, -0.04])}
    made = rule_of_thumb(TEACHER, chosen, [rule], found)
    assert made.kept == (2, 2, 1)
    assert made.ahead.change == pytest.approx(0.04)
    assert made.ahead.base == pytest.approx(0.75) and made.ahead.value == pytest.approx(0.79)
    assert (made.ahead.ci_low, made.ahead.ci_high) == (pytest.approx(0.04), pytest.approx(0.04))
    assert rule_of_thumb(TEACHER, chosen, [rule], {chosen: {}, rule: {}}) is None


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
