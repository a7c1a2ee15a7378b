"""Probe results keep the shape that other rooms read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.results import Finding, HeadScores, ProbeResult, Text, Tokens
from qt_bert.results.probe import ModelRef, PairsRef, Source, finding_from_json

FINDING = Finding(
    id="matching.five_heads",
    claim=Text("去掉五个匹配头后准确率下降", "Five matching heads out lower accuracy"),
    source=Source(article="heads", section="2.4", value="−50 %"),
    value=-12.5,
    ci_low=-16.0,
    ci_high=-9.0,
    p=0.001,
    q=0.004,
    margin=0.0,
    n_queries=160,
    verdict="reproduced",
    unit=Text("百分点", "points"),
)
RESULT = ProbeResult(
    probe="matching",
    model=ModelRef(name="graded", sha256="ab" * 32),
    pairs=PairsRef(name="test.tsv", sha256="cd" * 32, n_pairs=800, n_queries=160),
    settings={"k": 5, "draws": 99},
    summary=Text("五个头", "five heads"),
    findings=(FINDING,),
    heads=(HeadScores(head="L2H1", scores={"matching": 3.5, "order": None}, selected=True),),
    sets={"matching": ("L2H1", "L11H10")},
    figures=(Tokens(name="case", title=Text("例", "case"), unit="", lines=()),),
)


def test_result_survives_its_file(tmp_path: Path) -> None:
    RESULT.write(tmp_path / "matching.json")
    assert ProbeResult.read(tmp_path / "matching.json") == RESULT


def test_stored_keys_are_those_of_the_contract() -> None:
    stored = RESULT.to_json()
    assert list(stored) == [
        "schema",
        "probe",
        "title",
        "order",
        "model",
        "pairs",
        "settings",
        "summary",
        "findings",
        "heads",
        "sets",
        "stability",
        "figures",
    ]
    assert stored["heads"] == [
        {
            "head": "L2H1",
            "scores": {"matching": 3.5, "order": None},
            "selected": True,
            "teacher": None,
        }
    ]


def test_finding_round_trip() -> None:
    stored = json.loads(json.dumps(FINDING.to_json()))
    assert finding_from_json(stored) == FINDING


def test_a_file_from_before_sides_and_titles_is_still_read(tmp_path: Path) -> None:
    stored = RESULT.to_json()
    for key in ("title", "order"):
        del stored[key]
    for key in ("side", "primary", "conclusions"):
        del stored["findings"][0][key]
    path = tmp_path / "matching.json"
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert ProbeResult.read(path) == RESULT


def test_a_conclusion_follows_the_verdict() -> None:
    sentence = Text("匹配头承担匹配", "these heads do the matching")
    finding = replace(FINDING, conclusions={"reproduced": sentence})
    assert finding_from_json(finding.to_json()).conclusion == sentence
    assert replace(finding, verdict="inconclusive").conclusion is None
    assert replace(finding, verdict=None).conclusion is None


@pytest.mark.parametrize("value", [None, -0.5, "82 %"])
def test_a_source_gives_a_number_words_or_nothing(value: float | str | None) -> None:
    finding = replace(FINDING, source=replace(FINDING.source, value=value))
    assert finding_from_json(finding.to_json()).source.value == value


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(RunFolderError, match="verdict: expected 'reproduced'"):
        finding_from_json(FINDING.to_json() | {"verdict": "maybe"})


@pytest.mark.parametrize("head", ["2.1", "L2", "l2h1", "L2H1 "])
def test_a_head_has_one_spelling(head: str) -> None:
    with pytest.raises(ArgumentError, match="L3H7"):
        HeadScores(head=head, scores={})
    with pytest.raises(ArgumentError, match="L3H7"):
        replace(RESULT, sets={"named": (head,)})


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "matching.json"
    path.write_text(json.dumps(RESULT.to_json() | {"schema": 2}), encoding="utf-8")
    with pytest.raises(RunFolderError, match="schema: expected 1, found 2"):
        ProbeResult.read(path)
