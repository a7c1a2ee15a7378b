"""Findings judged together: who belongs to the family, and what follows for each."""

from __future__ import annotations

from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source
from qt_bert.results.verdicts import settle


def finding(**given: Any) -> Finding:
    facts = {"value": 3.0, "ci_low": 1.0, "ci_high": 5.0, "p": 0.01, "margin": 0.0}
    return Finding(
        id="x.y",
        claim=Text("断言", "claim"),
        source=Source(article="heads", section="2.4"),
        n_queries=160,
        **(facts | given),
    )


def test_q_is_over_the_primary_findings_that_claim_a_side() -> None:
    settled = settle(
        [
            finding(p=0.01),
            finding(p=0.04),
            finding(p=0.001, primary=False),
            finding(p=None, side="none", margin=6.0),
            finding(p=None),
        ]
    )
    assert [one.q for one in settled] == [
        pytest.approx(0.02),
        pytest.approx(0.04),
        None,
        None,
        None,
    ]
    assert [one.verdict for one in settled] == [
        "reproduced",
        "reproduced",
        None,
        "reproduced",
        "inconclusive",
    ]


def test_a_larger_family_takes_a_verdict_back() -> None:
    alone = settle([finding(p=0.04)])
    beside = settle([*alone, finding(p=0.9), finding(p=0.8)])
    assert (alone[0].verdict, beside[0].verdict) == ("reproduced", "inconclusive")
    assert beside[0].q == pytest.approx(0.12)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"side": "below"}, "not reproduced"),
        ({"side": "below", "ci_low": -5.0, "ci_high": -1.0}, "reproduced"),
        ({"side": "below", "ci_low": -5.0, "ci_high": -1.0, "margin": 2.0}, "inconclusive"),
        ({"margin": 5.0}, "not reproduced"),
        ({"ci_low": None, "ci_high": None}, "inconclusive"),
        ({"side": "none", "margin": 2.0}, "inconclusive"),
        ({"side": "none", "margin": 0.5}, "not reproduced"),
        ({"side": "none", "margin": 5.0, "p": 0.9}, "reproduced"),
    ],
)
def test_the_side_decides_what_the_interval_means(given: dict[str, Any], expected: str) -> None:
    assert settle([finding(**given)])[0].verdict == expected


def test_no_findings_are_no_family() -> None:
    assert settle([]) == ()


def test_a_p_value_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"0\.\.1"):
        settle([finding(p=1.5)])
