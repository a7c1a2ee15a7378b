"""Reading `evaluation.json`, in its fullest and in its barest form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.files import write_json
from qt_bert.results.evaluation import EvaluationResult

BAREST: dict[str, Any] = {
    "schema": 1,
    "model": {
        "name": "reranker",
        "sha256": "ab",
        "parameters": 1000,
        "layers": 2,
        "heads": 2,
        "hidden": 8,
        "max_length": 64,
        "dtype": "float32",
    },
    "pairs": {"name": "a.tsv", "sha256": "cd", "n_pairs": 4, "n_queries": 2},
    "metrics": {"accuracy": {"value": None, "reason": "the model gives one score"}},
}


def read(path: Path, value: dict[str, Any]) -> EvaluationResult:
    write_json(path / "evaluation.json", value)
    return EvaluationResult.read(path / "evaluation.json")


def test_a_model_of_one_score_has_no_levels(tmp_path: Path) -> None:
    result = read(tmp_path, BAREST)
    assert result.confusion is None
    assert result.metrics["accuracy"].reason == "the model gives one score"


def test_labels_may_be_numbers_or_words(tmp_path: Path) -> None:
    pair = {"query": "q", "title": "t", "predicted_grade": 2, "expected_grade": 2, "p": [1, 0]}
    errors = [pair | {"grade": grade} for grade in (1, 2.5, "0")]
    result = read(tmp_path, BAREST | {"errors": errors})
    assert [error.grade for error in result.errors] == [1, 2.5, "0"]


def test_a_damaged_metric_is_named(tmp_path: Path) -> None:
    damaged = BAREST | {"metrics": {"qwk": {"value": "high"}}}
    with pytest.raises(RunFolderError, match=r"metrics\['qwk'\]: value: expected a number"):
        read(tmp_path, damaged)
