"""What the rivals of a plan keep and imitate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning.arms import arms_of, even_plan, middle_plan, middle_third
from qt_bert.planning.distill import LossWeights
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, Plan, layer_map


def plan(*kept: KeptLayer, layers: int = 12, heads: int = 12, units: int = 768) -> Plan:
    return Plan(
        teacher=TeacherRef(name="t", sha256="0", layers=layers, heads=heads, units=units),
        budget=Budget(kind_of="layers", value=len(kept), share=False, asked="by hand"),
        replacement="mean",
        kept=kept,
        layer_map=layer_map(kept, layers),
    )


ALL = tuple(range(12))
FOUR = plan(*(KeptLayer(layer=n, heads=ALL) for n in (0, 1, 4, 5)))


def test_even_spacing_of_whole_layers():
    even = even_plan(FOUR)
    assert [one.layer for one in even.kept] == [0, 3, 6, 9]
    assert {one.heads for one in even.kept} == {ALL} and {one.units for one in even.kept} == {None}
    assert [match.imitates for match in even.layer_map] == [2, 5, 8, 11]
    assert even.replacement == "zero"


def test_even_spacing_keeps_as_many_heads_and_units():
    asked = plan(
        KeptLayer(layer=1, heads=(0, 1, 2, 3)),
        KeptLayer(layer=4, heads=(), units=100),
        KeptLayer(layer=5, heads=(7,), units=300),
    )
    even = even_plan(asked)
    assert [one.heads for one in even.kept] == [(0, 6), (0, 6), (0,)]
    assert [one.units for one in even.kept] == [390, 389, 389]
    assert sum(one.units for one in even.kept) == 768 + 100 + 300
    named = replace(asked, units={"4": tuple(range(100)), "5": tuple(range(300))})
    assert even_plan(named).units == {}


@pytest.mark.parametrize(
    ("layers", "third"),
    [(12, (4, 7)), (6, (2, 3)), (4, (1, 2)), (3, (1, 1)), (2, (0, 1)), (1, (0, 0))],
)
def test_the_middle_third(layers, third):
    assert middle_third(layers) == third


def test_the_middle_is_imitated_by_the_layers_that_stand_for_it():
    # 0 stands for 0, 1 for 1-3, 4 for 4, 5 for 5-11; the middle third is 4-7
    middle = middle_plan(FOUR)
    assert [(m.student, m.imitates) for m in middle.layer_map] == [(2, 4), (3, 7)]
    assert middle.kept == FOUR.kept
    even = middle_plan(even_plan(FOUR))
    assert [(m.student, m.imitates) for m in even.layer_map] == [(1, 5), (2, 7)]


def test_arms_differ_in_one_thing_each(job_of):
    job = job_of(loss=LossWeights(hidden=2.0))
    arms = {arm.name: arm.job for arm in arms_of(job)}
    assert list(arms) == ["plan", "even", "grades", "middle"]
    assert arms["plan"] == job
    assert arms["grades"] == replace(job, loss=LossWeights().grades_alone())
    assert arms["even"].loss == arms["middle"].loss == job.loss
    assert arms["middle"].student.kept == job.student.kept


@pytest.mark.parametrize("loss", [LossWeights().grades_alone(), LossWeights(hidden=0.0)])
def test_arms_need_hidden_states_to_compare(job_of, loss):
    with pytest.raises(ArgumentError, match="`hidden` a weight"):
        arms_of(job_of(loss=loss))
