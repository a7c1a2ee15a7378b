"""The summary: the grades in one line, then what the probes found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qt_bert.codec import decode
from qt_bert.report.evaluation import in_one_line
from qt_bert.report.probes import headlines
from qt_bert.report.render import render
from qt_bert.results.evaluation import EvaluationResult
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text

Result = Callable[..., ProbeResult]


def test_the_grades_stand_in_one_line(evaluation: dict[str, Any]) -> None:
    line = in_one_line(decode(EvaluationResult, evaluation))
    assert line.en.endswith(
        "(12 layers × 12 heads, 9.47 million parameters) on the 800 pairs of 160 queries of "
        "test.tsv: right 52.3%, at most one level off 89.4%, pairs of titles in the right order "
        "86.1%, QWK (weighted κ) 0.768, Spearman ρ 0.774, NDCG@5 0.850."
    )
    assert "判对 52.3%，至多差一档 89.4%" in line.zh


def test_what_a_model_of_one_logit_has_no_value_for_is_left_out(evaluation: dict[str, Any]) -> None:
    for name in ("accuracy", "within_one", "qwk"):
        evaluation["metrics"][name] = {"value": None, "reason": "one logit"}
    line = in_one_line(decode(EvaluationResult, evaluation))
    assert line.en.endswith(
        "pairs of titles in the right order 86.1%, Spearman ρ 0.774, NDCG@5 0.850."
    )


def test_every_claim_is_said_with_its_verdict(result_of: Result) -> None:
    listed, counted = headlines([result_of("boundary", 10), result_of("order", 20, claims=())])
    assert listed.kind == "statements"
    said = [
        (one.section, one.badge and one.badge.text.en, one.value.value) for one in listed.statements
    ]
    assert said == [
        ("probe-boundary", "reproduced", 11.0),
        ("probe-boundary", "not reproduced", -1.5),
        ("probe-boundary", "inconclusive", 3.0),
        ("probe-boundary", "not testable here", None),
    ]
    follows = [one.follows.en for one in listed.statements if one.follows]
    assert follows == [
        "This head holds information on word ends beyond the characters themselves.",
        "These data speak against the claim.",
        "These data cannot decide: the 95 % interval holds the margin, 2; deciding it with 80 % "
        "power needs 1,300 queries.",
        "The claim cannot be tested on these data: there are fewer than 19 random sets to compare "
        "with.",
    ]
    assert counted.kind == "text"
    assert str(counted.body) == str(
        Text(
            "共 4 条说法：成立 1，不成立 1，未定 1，此处无法检验 1。",
            "4 claims: 1 reproduced, 1 not reproduced, 1 inconclusive, 1 not testable here.",
        )
    )


def test_probes_without_a_claim_say_nothing(result_of: Result) -> None:
    assert headlines([result_of("redundancy", 10, claims=())]) == ()


def test_the_summary_links_to_its_sections(run_of: Callable[..., Path], result_of: Result) -> None:
    page = render(run_of(result_of("redundancy", 10))).read_text(encoding="utf-8")
    summary = page[page.index('<section id="summary"') : page.index("<nav")]
    assert 'href="#probe-redundancy"' in summary and 'id="probe-redundancy"' in page
    assert "11.0" in summary and "冗余 &lt;b&gt;" in summary
