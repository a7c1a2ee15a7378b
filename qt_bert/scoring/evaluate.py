"""`qt-bert evaluate`: one model on one graded file, as the plain data report and page draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import METRICS, evaluate
from qt_bert.evaluation.tables import furthest_off
from qt_bert.files import sha256_file
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Judged
from qt_bert.scoring.outputs import Outputs, read_outputs
from qt_bert.scoring.tables import growing_table

EXAMPLES = 12
SHOWN_IN_SLICES = ("accuracy", "macro_f1", "qwk", "mae", "spearman", "ndcg_at_5")


def evaluation_json(
    judged: Judged,
    scorer: Scorer,
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
    outputs = read_outputs(judged.logits, scorer.checkpoint.settings.labels, judged.calibration)
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
        "slices": {column: slices(judged, column, resamples, seed) for column in by},
        "errors": [shown_pair(judged, outputs, int(i)) for i in furthest],
        "examples": examples(judged, outputs),
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
    if not any(column in pair.extra for pair in judged.pairs):
        known = sorted({name for pair in judged.pairs for name in pair.extra})
        raise ArgumentError(
            f"--by {column}: the file has no such column; it has {', '.join(known) or 'none'}"
        )
    tags = [(pair.extra.get(column) or "").split(",") for pair in judged.pairs]
    out: dict[str, Any] = {}
    for value in sorted({tag for row in tags for tag in row}):
        rows = np.array([value in row for row in tags])
        one = evaluate(judged.judgements.subset(rows), resamples=resamples, seed=seed)
        out[value or "(none)"] = {
            name: one.metrics[name].to_json() for name in SHOWN_IN_SLICES if name in one.metrics
        }
    return out


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


def write_errors(path: Path, judged: Judged, scorer: Scorer) -> None:
    """Write every pair with its outputs, furthest off first, in the format of `path`'s suffix."""
    outputs = read_outputs(judged.logits, scorer.checkpoint.settings.labels, judged.calibration)
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
