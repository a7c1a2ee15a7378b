"""The map of heads by phenomena: a planted head, its sign, and who is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.ablation.interventions import Variant
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.behaviour.carried import Carried, carried_by
from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Case
from qt_bert.probes.behaviour.stable import by_change
from qt_bert.probes.behaviour.swept import some_of_each
from qt_bert.probes.controls import zeroed
from qt_bert.probes.naming import stability

HEADS = [Head(layer, head) for layer in range(2) for head in range(4)]
VARIANTS = [Variant(str(head), (zeroed([head]),), "single") for head in HEADS]
CASES = [
    Case(f"{name}-{n}", name, relation, f"{name}{n}", "t", "o")
    for name, relation in (("negation", BETTER), ("synonym", ALIKE))
    for n in range(30)
]
CARRIER, STEADIER = 5, 2
LEAST = 0.05


@pytest.fixture(scope="module")
def found() -> Carried:
    """Without the carrier negations go unseen, and without the steadier one synonyms do no harm."""
    rng = np.random.default_rng(0)
    plain = np.r_[np.ones(30), np.where(np.arange(30) % 2, 0.5, -0.5)]
    deltas = plain + rng.normal(0, 0.02, (9, 60))
    deltas[0] = plain
    deltas[1 + CARRIER, :30] -= 0.8
    deltas[1 + STEADIER, 30:] *= 0.2
    return carried_by(VARIANTS, deltas, CASES, LEAST, seed=0)


def test_the_planted_cells_are_marked(found: Carried) -> None:
    assert found.phenomena == ("negation", "synonym") and found.n == 60 and found.by_heads
    assert np.argwhere(found.marked).tolist() == [[STEADIER, 1], [CARRIER, 0]]
    assert found.change[CARRIER, 0] == pytest.approx(-0.8, abs=0.02)
    assert found.change[STEADIER, 1] == pytest.approx(0.4, abs=0.02)


def test_who_carries_and_who_hinders(found: Carried) -> None:
    assert found.chosen("negation", helps=True) == [HEADS[CARRIER]]
    assert found.chosen("negation", helps=False) == []
    assert found.chosen("synonym", helps=True) == []
    assert found.chosen("synonym", helps=False) == [HEADS[STEADIER]]


def test_the_planted_head_comes_back(found: Carried) -> None:
    rule = by_change(found, "negation", Shape(2, 4), helps=True)
    scores = rule(np.stack([np.ones(30), np.r_[np.ones(15), np.zeros(15)]]))
    assert scores.shape == (2, 2, 4)
    assert scores[0].ravel() == pytest.approx(-found.change[:, 0])
    assert scores[1].argmax() == CARRIER
    again = stability(rule, [HEADS[CARRIER]], 30)
    assert again is not None and (again.overlap, again.halves, again.verdict) == (1, 1, "undecided")
    assert (again.chance_mean, again.k) == (0.25, 1)
    turned = by_change(found, "negation", Shape(2, 4), helps=False)(np.ones((1, 30)))
    assert turned[0].ravel() == pytest.approx(found.change[:, 0])


def test_at_most_five_the_strongest_first() -> None:
    deltas = np.ones((9, 60))
    for row in range(8):
        deltas[1 + row, :30] -= 0.1 * (row + 1)
    found = carried_by(VARIANTS, deltas, CASES, LEAST, seed=0)
    assert found.chosen("negation", helps=True) == [HEADS[row] for row in (7, 6, 5, 4, 3)]


def test_a_change_that_is_sure_but_too_small_names_no_head() -> None:
    deltas = np.ones((9, 60))
    deltas[1 + CARRIER, :30] -= 0.049
    deltas[1 + STEADIER, :30] -= 0.051
    found = carried_by(VARIANTS, deltas, CASES, LEAST, seed=0)
    assert (found.q[[CARRIER, STEADIER], 0] < 0.05).all()
    assert np.argwhere(found.marked).tolist() == [[STEADIER, 0]]
    assert found.chosen("negation", helps=True) == [HEADS[STEADIER]]


def test_nothing_planted_nothing_marked() -> None:
    rng = np.random.default_rng(1)
    deltas = np.ones((9, 60)) + rng.normal(0, 0.1, (9, 60)) * (np.arange(9) > 0)[:, None]
    assert not carried_by(VARIANTS, deltas, CASES, LEAST, seed=0).marked.any()


def test_a_query_of_two_cases_counts_once() -> None:
    """Twice the same query is no second witness."""
    cases = [Case(f"{n}", "negation", BETTER, f"q{n % 2}", "t", "o") for n in range(20)]
    deltas = np.stack([np.ones(20), np.zeros(20)])
    found = carried_by(VARIANTS[:1], deltas, cases, LEAST, seed=0)
    assert found.change.tolist() == [[-1.0]]
    assert found.p[0, 0] == pytest.approx(0.5, abs=0.03)


def test_few_of_each_phenomenon_in_their_order() -> None:
    some = some_of_each(CASES, 4, seed=0)
    assert [case.phenomenon for case in some] == ["negation"] * 4 + ["synonym"] * 4
    assert [case.id for case in some] == [case.id for case in CASES if case in some]
    assert some_of_each(CASES, 100, seed=0) == tuple(CASES)
