"""The summary: the grades in one line, then what the probes found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from qt_bert.report import render
from qt_bert.report.evaluation.summary import in_one_line
from qt_bert.report.probes.headlines import headlines
from qt_bert.results import EvaluationResult, ProbeResult
from qt_bert.results.codec import decode
from qt_bert.results.verdicts import settle

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


def test_each_probe_says_its_first_decided_claim(result_of: Result) -> None:
    first = result_of("redundancy", 10)
    undecided = replace(first.findings[0], p=0.9)
    second = result_of("order", 20, findings=settle([undecided, first.findings[2]]))
    listed, counted = headlines([first, second])
    assert listed.kind == "statements"
    said = [
        (one.section, one.badge and one.badge.text.en, one.value.value) for one in listed.statements
    ]
    assert said == [
        ("probe-redundancy", "reproduced", 18.25),
        ("probe-order", "not reproduced", -1.5),
    ]
    assert listed.statements[0].follows is not None
    assert listed.statements[0].follows.en == "The low heads cannot be spared."
    assert counted.kind == "text"
    assert "5 claims were tested: 2 reproduced, 2 not reproduced, 1 inconclusive." in str(
        counted.body
    )


def test_probes_without_a_decided_claim_are_named(result_of: Result) -> None:
    result = result_of("redundancy", 10)
    open_one = replace(result, findings=settle([replace(result.findings[0], p=0.9)]))
    (counted,) = headlines([open_one])
    assert counted.kind == "text"
    assert "1 claim was tested" in str(counted.body)
    assert "Not decided either way: Redundancy <b>." in str(counted.body)


def test_at_most_five_are_said(result_of: Result) -> None:
    listed, _ = headlines([result_of(f"probe{i}", i) for i in range(7)])
    assert listed.kind == "statements" and len(listed.statements) == 5


def test_the_summary_links_to_its_sections(run_of: Callable[..., Path], result_of: Result) -> None:
    page = render(run_of(result_of("redundancy", 10))).read_text(encoding="utf-8")
    summary = page[page.index('<section id="summary"') : page.index("<nav")]
    assert 'href="#probe-redundancy"' in summary and 'id="probe-redundancy"' in page
    assert "18.2" in summary and "冗余 &lt;b&gt;" in summary
