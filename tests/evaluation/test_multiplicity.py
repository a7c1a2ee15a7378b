from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import q_values, verdict
from qt_bert.evaluation.multiplicity import no_effect_verdict


def test_q_values_by_hand() -> None:
    assert q_values([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])


def test_q_values_are_those_of_statsmodels() -> None:
    p = np.random.default_rng(0).random(144) ** 2
    assert q_values(p.tolist()) == pytest.approx(multipletests(p, method="fdr_bh")[1])


def test_a_missing_p_is_outside_the_family() -> None:
    assert q_values([0.02, None, 0.5]) == [pytest.approx(0.04), None, pytest.approx(0.5)]


@pytest.mark.parametrize("p", [[], [None]])
def test_a_family_may_be_empty(p: list[float | None]) -> None:
    assert q_values(p) == p


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_p_outside_0_to_1_is_refused(p: float) -> None:
    with pytest.raises(ArgumentError, match="p-values"):
        q_values([0.5, p])


def test_true_nulls_are_rarely_discovered() -> None:
    generator = np.random.default_rng(1)
    false = [min(q_values(generator.random(20).tolist())) < 0.05 for _ in range(400)]  # type: ignore[type-var, operator]
    assert np.mean(false) < 0.08


@pytest.mark.parametrize(
    ("low", "high", "q", "side", "margin", "expected"),
    [
        (0.03, 0.08, 0.01, "above", 0.02, "reproduced"),
        (0.03, 0.08, 0.05, "above", 0.02, "inconclusive"),
        (0.03, 0.08, None, "above", 0.02, "inconclusive"),
        (0.02, 0.08, 0.01, "above", 0.02, "inconclusive"),
        (-0.05, 0.01, 0.01, "above", 0.02, "not reproduced"),
        (-0.05, 0.02, 0.01, "above", 0.02, "not reproduced"),
        (-0.08, -0.03, 0.01, "below", 0.02, "reproduced"),
        (-0.08, -0.01, 0.01, "below", 0.02, "inconclusive"),
        (-0.01, 0.08, 0.01, "below", 0.02, "not reproduced"),
        (0.03, 0.08, 0.01, "below", 0.0, "not reproduced"),
        (None, None, 0.01, "above", 0.0, "inconclusive"),
    ],
)
def test_verdict(
    low: float | None, high: float | None, q: float | None, side: Any, margin: float, expected: str
) -> None:
    assert verdict(low, high, q, side, margin) == expected


def test_a_verdict_may_be_about_another_null() -> None:
    assert verdict(0.62, 0.70, 0.01, "above", 0.1, null=0.5) == "reproduced"
    assert verdict(0.52, 0.59, 0.01, "above", 0.1, null=0.5) == "not reproduced"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.01, 0.02, "reproduced"),
        (-0.01, 0.03, "inconclusive"),
        (0.03, 0.05, "not reproduced"),
        (-0.05, -0.021, "not reproduced"),
        (-0.05, 0.05, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_no_effect_verdict(low: float | None, high: float | None, expected: str) -> None:
    assert no_effect_verdict(low, high, 0.02) == expected


@pytest.mark.parametrize(
    ("low", "high", "side", "margin", "message"),
    [
        (0.0, 1.0, "above", -0.02, "margin is -0.02"),
        (0.0, 1.0, "up", 0.0, "side is 'up'"),
        (1.0, 0.0, "above", 0.0, "reversed"),
        (float("nan"), 0.0, "above", 0.0, "not a number"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    low: float, high: float, side: Any, margin: float, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        verdict(low, high, 0.01, side, margin)
