"""Chosen heads beside others of their layers: when they matter more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.probes.behaviour.bands import GRADE, Band
from qt_bert.probes.behaviour.claims import findings
from qt_bert.probes.behaviour.contests import CARRIES, HINDERS, LeftOut
from qt_bert.probes.behaviour.estimates import mean
from qt_bert.results.probe import Finding


def made(way: str, beyond: np.ndarray | None) -> LeftOut:
    change = mean(np.array([-0.4, -0.2]), ["a", "b"], resamples=9, seed=0, swaps=0)
    return LeftOut(
        "negation", way, (Head(1, 2),), change, -0.1, beyond, 0.25, 3, {Head(1, 2): -0.3}
    )


@pytest.mark.parametrize(
    ("way", "low", "high", "matters"),
    [
        (CARRIES, -0.5, -0.1, True),
        (CARRIES, -0.5, 0.1, False),
        (CARRIES, 0.1, 0.5, False),
        (HINDERS, 0.1, 0.5, True),
        (HINDERS, -0.1, 0.5, False),
    ],
)
def test_the_whole_interval_lies_on_their_side(
    way: str, low: float, high: float, matters: bool
) -> None:
    assert made(way, np.linspace(low, high, 100)).matters is matters


def test_without_others_or_resamples_nothing_is_said() -> None:
    assert not made(CARRIES, None).matters
    assert not made(CARRIES, np.empty(0)).matters
    assert made(HINDERS, None).name == "hinders_negation"


def claim_of(tested: LeftOut) -> Finding:
    half = SimpleNamespace(tallies={}, higher=SimpleNamespace(n=0))
    study = SimpleNamespace(
        validation=half, discovery=half, tested=(tested,), band=Band(0.25, GRADE)
    )
    (claim,) = findings(study)  # type: ignore[arg-type]
    return claim


def test_a_claim_says_what_the_heads_are_held_against() -> None:
    found = claim_of(made(CARRIES, np.linspace(-0.5, -0.1, 100)))
    assert found.claim.en == (
        "without L1H2, chosen on discovery, the model does worse on negation or opposite, by more "
        "than without others of their layers"
    )
    assert found.claim.zh.endswith("，“否定或反义”判得比去掉同层其他头时更差")
    assert (found.value, found.side, found.p) == (pytest.approx(-0.2), "below", 0.25)
    assert found.ci_low == pytest.approx(-0.49) and not found.primary
    alone = claim_of(replace(made(HINDERS, None), others=None, p=None))
    assert alone.claim.en.endswith("the model does better on negation or opposite")
    assert alone.claim.zh.endswith("，“否定或反义”判得更好")
    assert (alone.value, alone.side, alone.p) == (pytest.approx(-0.3), "above", None)
