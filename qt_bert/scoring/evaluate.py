"""`qt-bert evaluate`, `compare` and `calibrate`: one model or two on a graded file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.scoring.judge import (
    Judged,
    Outputs,
    PairScorer,
    hardly_differ,
    judge_file,
    read_outputs,
    rows_by_value,
)
from qt_bert.scoring.tables import growing_table
from qt_bert.stats.arrays import BoolArray
from qt_bert.stats.comparison import compare
from qt_bert.stats.evaluation import evaluate, furthest_off
from qt_bert.stats.intervals import RESAMPLES
from qt_bert.stats.metrics import METRICS

# `qt-bert evaluate`: one model on one graded file, as the plain data report and page draw.


EXAMPLES = 12
SHOWN_IN_SLICES = ("accuracy", "macro_f1", "qwk", "mae", "spearman", "ndcg_at_5")


def evaluation_json(
    judged: Judged,
    scorer: PairScorer,
    path: Path,
    *,
    by: tuple[str, ...] = (),
    resamples: int = 2000,
    seed: int = 0,
    worst: int = 50,
) -> dict[str, Any]:
    """Everything measured of `judged`: metrics with intervals, tables, slices, the pairs furthest off.

    `by` names columns of the file to slice by; ArgumentError where the file has none of that name.
    """
    measured = evaluate(judged.judgements, resamples=resamples, seed=seed).to_json()
    outputs = read_outputs(judged.logits, scorer.settings.labels, judged.calibration)
    furthest = furthest_off(judged.judgements, worst)
    return {
        "schema": 1,
        "model": scorer.describe(),
        "pairs": {
            "name": path.name,
            "sha256": sha256_file(path),
            "n_pairs": len(judged.pairs),
            "n_queries": judged.judgements.n_queries,
            "rejected": judged.rejected,
        },
        "mode": measured.pop("mode"),
        "levels": measured.pop("levels"),
        "confusion": measured.pop("confusion"),
        "per_grade": measured.pop("per_grade"),
        "reliability": measured.pop("reliability"),
        "pnr_counts": measured.pop("pnr_counts"),
        "settings": measured.pop("settings"),
        "metrics": measured,
        "descriptions": {
            name: {**m.description._asdict(), "title": m.title._asdict(), "direction": m.direction}
            for name, m in METRICS.items()
        },
        "without_grade_1": _without_grade_1(judged, resamples, seed),
        "slices": {column: slices(judged, column, resamples, seed) for column in by},
        "errors": [shown_pair(judged, outputs, int(i)) for i in furthest],
        "examples": examples(judged, outputs),
        "alike": hardly_differ(outputs.ranking_score) if judged.judgements.eligible.any() else None,
        "truncated_titles": scorer.counts.truncated_titles,
        "truncated_queries": scorer.counts.truncated_queries,
    } | ({"guards": dict(scorer.left_out.guards)} if scorer.left_out else {})


def examples(judged: Judged, outputs: Outputs) -> list[dict[str, Any]]:
    """The first pairs of the file: whole queries until 12 pairs are there, 24 pairs at most."""
    shown: list[dict[str, Any]] = []
    for i, pair in enumerate(judged.pairs):
        if len(shown) >= EXAMPLES and pair.query != shown[-1]["query"]:
            break
        shown.append(shown_pair(judged, outputs, i))
    return shown[: 2 * EXAMPLES]


def slices(judged: Judged, column: str, resamples: int, seed: int) -> dict[str, Any]:
    """Chosen metrics for each value of a column; a cell of comma-separated tags counts for each."""
    return {
        value: _of_rows(judged, rows, resamples, seed)
        for value, rows in rows_by_value(judged.pairs, column).items()
    }


def _of_rows(judged: Judged, rows: BoolArray, resamples: int, seed: int) -> dict[str, Any]:
    one = evaluate(judged.judgements.subset(rows), resamples=resamples, seed=seed)
    return {name: one.metrics[name].to_json() for name in SHOWN_IN_SLICES if name in one.metrics}


def _without_grade_1(judged: Judged, resamples: int, seed: int) -> dict[str, Any]:
    """The same metrics on the pairs whose label allows more than grade 1: titles of another subject are
    easy to tell, and many of them make every figure look better. Empty where nothing is left out."""
    rows = np.array([pair.grades != (1,) for pair in judged.pairs])
    return {} if rows.all() or not rows.any() else _of_rows(judged, rows, resamples, seed)


def shown_pair(judged: Judged, outputs: Outputs, row: int) -> dict[str, Any]:
    """One pair with its label and what the model says of it."""
    pair = judged.pairs[row]
    out: dict[str, Any] = {
        "id": pair.id,
        "line": pair.line,
        "query": pair.query,
        "title": pair.title,
        "grade": _label(judged, row),
    }
    if outputs.probabilities is not None and outputs.expected is not None:
        out["p"] = [round(float(p), 6) for p in outputs.probabilities[row]]
        out["predicted_grade"] = (outputs.predicted or [])[row]
        out["expected_grade"] = round(float(outputs.expected[row]), 6)
    elif outputs.score is not None:
        out["score"] = float(outputs.score[row])
    return out


def _label(judged: Judged, row: int) -> str | None:
    """The label; a coarse one with the grades it may mean, so that it is not read as a grade."""
    pair = judged.pairs[row]
    if judged.judgements.mode in ("coarse", "overlapping") and pair.grades:
        return f"{pair.label} = {'/'.join(map(str, pair.grades))}"
    return pair.label


def write_errors(path: Path, judged: Judged, scorer: PairScorer) -> None:
    """Write every pair with its outputs, furthest off first, in the format of `path`'s suffix."""
    outputs = read_outputs(judged.logits, scorer.settings.labels, judged.calibration)
    order = furthest_off(judged.judgements, len(judged.pairs))
    columns: dict[str, list[Any]] = {
        name: [str(getattr(judged.pairs[i], name) or "") for i in order]
        for name in ("id", "line", "query", "title", "label")
    }
    columns["grade"] = columns.pop("label")
    for name, values in outputs.columns().items():
        columns[name] = [values[i] for i in order]
    table = growing_table(path, "--errors")
    table.rewind(0)
    table.append(columns)
    table.finish()
    table.clear()


# Two checkpoints on the same graded pairs.


def compare_models(
    path: Path,
    options: ReaderOptions,
    a: PairScorer,
    b: PairScorer,
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


def check_comparable(a: PairScorer, b: PairScorer) -> None:
    """ArgumentError where one model reads labels another way than the other.

    That is, as levels and as grades, so that no figure would mean the same.
    """
    if _reading(a) != _reading(b):
        raise ArgumentError(
            f"{a.name} and {b.name} have outputs of different kinds; say what "
            "the logits mean with --model-grades and --model-grades-b, or in their qt_bert.json"
        )


def comparison_json(
    first: Judged,
    second: Judged,
    a: PairScorer,
    b: PairScorer,
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


def _reading(scorer: PairScorer) -> int | None:
    """How a model has labels read: as so many levels, or (None) as grades."""
    labels = scorer.settings.labels
    return None if labels.grades is not None or labels.logits == 1 else labels.logits
