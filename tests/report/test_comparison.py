"""Two models side by side: metrics, findings, and what was not run."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.codec import decode
from qt_bert.report.comparison import claims_table, metrics_table
from qt_bert.report.render import render
from qt_bert.results.evaluation import ComparisonResult, EvaluationResult
from qt_bert.results.probe import ProbeResult
from tests.report.conftest import write_run

NO_VALUE = {"value_a": None, "value_b": None, "difference": None, "n": 800, "n_queries": 160}


def difference(a: float, b: float, half: float, p: float) -> dict[str, Any]:
    gap = b - a
    ends = {"ci_low": gap - half, "ci_high": gap + half}
    return NO_VALUE | ends | {"value_a": a, "value_b": b, "difference": gap, "p": p}


@pytest.fixture
def compared(evaluation, hostile) -> dict[str, Any]:
    model = evaluation["model"]
    small = model | {
        "name": f"small {hostile[0]}",
        "layers": 2,
        "heads": 4,
        "parameters": 1_000_000,
    }
    pair = {"query": hostile[0], "title": "标题", "grade": "4", "a": 4.2, "b": 1.3, "line": 7}
    return {
        "schema": 1,
        "a": model,
        "b": small,
        "n_pairs": 800,
        "metrics": {
            "accuracy": difference(0.52, 0.43, 0.02, 0.0001),
            "mae": difference(0.59, 0.40, 0.02, 0.0001),
            "qwk": difference(0.77, 0.76, 0.05, 0.6),
            "bias": difference(0.1, 0.3, 0.05, 0.001),
            "pnr": NO_VALUE | {"reason": "no pair to judge"},
            "auc": NO_VALUE | {"reason": "no pair to judge"},
        },
        "most_different": [pair],
        "settings": {"resamples": 2000, "draws": 9999, "seed": 0},
    }


def test_who_is_better_goes_by_the_metrics_direction(evaluation, compared):
    evaluation["descriptions"]["bias"]["direction"] = "zero"
    result = decode(EvaluationResult, evaluation)
    table = metrics_table(decode(ComparisonResult, compared), result)
    names = [column.name for column in table.columns]
    better = {
        row[1]: None
        if (badge := dict(zip(names, row, strict=True))["better"]) is None
        else badge.text.en
        for row in table.rows
    }
    assert better == {
        "accuracy": "A",
        "mae": "B",
        "qwk": "no difference shown",
        "bias": None,
        "pnr": None,
        "auc": None,
    }


def test_claims_stand_side_by_side_by_their_ids(compared, result_of):
    comparison = decode(ComparisonResult, compared)
    first = result_of("boundary", 10)
    second = replace(first, claims=first.claims[:2])
    claims = claims_table(comparison, [(first, second)])
    assert [len(row) for row in claims.rows] == [len(claims.columns)] * 4
    assert [row[4] is None for row in claims.rows] == [False, False, True, True]


@pytest.fixture
def run_of_two(tmp_path, evaluation, compared, result_of) -> Path:
    probes: dict[str, ProbeResult] = {
        "probes/redundancy.json": result_of("redundancy", 10),
        "probes/shift.json": result_of("shift", 20),
        "compare/redundancy.json": result_of("redundancy", 10),
    }
    files = {"evaluation.json": evaluation, "comparison.json": compared}
    return write_run(
        tmp_path / "two",
        files | {name: one.to_json() for name, one in probes.items()},
        arguments={"compared": {"name": compared["b"]["name"], "sha256": "c"}},
    )


def test_the_page_and_its_tables_show_both(run_of_two, hostile):
    page = render(run_of_two).read_text(encoding="utf-8")
    assert hostile[0] not in page
    data = json.loads((run_of_two / "report.json").read_text(encoding="utf-8"))
    sections = {one["name"]: one["blocks"] for one in data["sections"]}
    assert {"comparison", "probe-redundancy"} <= set(sections)
    beside = sections["answer"][1]["body"]["en"]
    assert "Accuracy −0.090 [−0.110, −0.070] (p = 0.0001)" in beside
    assert "Not run on B: Redundancy &lt;b&gt;" in page
    assert "Without a value: pnr, auc (no pair to judge)." in page
    with open(run_of_two / "tables" / "comparison_metrics.csv", encoding="utf-8-sig") as handle:
        rows = {row["metric"]: row for row in csv.DictReader(handle)}
    assert float(rows["accuracy"]["difference_ci_low"]) == pytest.approx(-0.11)
    assert rows["pnr"]["difference"] == ""
