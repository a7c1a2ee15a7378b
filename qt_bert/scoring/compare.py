"""Two checkpoints on the same graded pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import compare
from qt_bert.evaluation.intervals import RESAMPLES
from qt_bert.pairs import ReaderOptions
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Judged, judge_file


def compare_models(
    path: Path,
    options: ReaderOptions,
    a: Scorer,
    b: Scorer,
    *,
    most: int = 10,
    seed: int = 0,
    rejects_path: Path | None = None,
) -> dict[str, Any]:
    """Every metric of both with the paired difference, and the `most` pairs that differ most.

    A one-logit model beside a graded one is compared by the metrics of order; the others say why
    not. Raises ArgumentError where `check_comparable` does.
    """
    check_comparable(a, b)
    first, second = (
        judge_file(path, options, scorer, rejects_path=rejects_path) for scorer in (a, b)
    )
    return comparison_json(first, second, a, b, most=most, seed=seed)


def check_comparable(a: Scorer, b: Scorer) -> None:
    """ArgumentError where one model reads labels another way than the other.

    That is, as levels and as grades, so that no figure would mean the same.
    """
    if _reading(a) != _reading(b):
        raise ArgumentError(
            f"{a.checkpoint.name} and {b.checkpoint.name} have outputs of different kinds; say what "
            "the logits mean with --model-grades and --model-grades-b, or in their qt_bert.json"
        )


def comparison_json(
    first: Judged,
    second: Judged,
    a: Scorer,
    b: Scorer,
    *,
    most: int = 10,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """What `compare_models` gives, of pairs that both have judged."""
    found = compare(
        first.judgements, second.judgements, resamples=resamples, seed=seed, most_different=most
    ).to_json()
    chosen = found.pop("most_different")
    settings = found.pop("settings")
    return {
        "schema": 1,
        "a": a.describe(),
        "b": b.describe(),
        "n_pairs": len(first.pairs),
        "rejected": first.rejected,
        "metrics": found,
        "settings": settings,
        "most_different": [
            {
                "id": first.pairs[i].id,
                "line": first.pairs[i].line,
                "query": first.pairs[i].query,
                "title": first.pairs[i].title,
                "grade": first.pairs[i].label,
                "a": float(first.judgements.ranking_score[i]),
                "b": float(second.judgements.ranking_score[i]),
            }
            for i in chosen
        ],
    } | ({"guards": dict(b.left_out.guards)} if b.left_out else {})


def _reading(scorer: Scorer) -> int | None:
    """How a model has labels read: as so many levels, or (None) as grades."""
    labels = scorer.checkpoint.settings.labels
    return None if labels.grades is not None or labels.logits == 1 else labels.logits
