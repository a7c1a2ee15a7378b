"""`qt-bert agree`: inter-rater agreement of a file with a column of grades per rater."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.codec import encode
from qt_bert.data.pairs import GradeMap, Pair, Reject
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.scoring.evaluate import by_column
from qt_bert.stats.agreement import OF_TWO, alpha
from qt_bert.stats.arrays import IntArray
from qt_bert.stats.estimate import RESAMPLES
from qt_bert.stats.evaluation import confusion, evaluate
from qt_bert.stats.judgements import Judgements, index_queries, judge_levels, name_set

FURTHEST = 10
EXACT = "1=1,2=2,3=3,4=4,5=5"
"""Without `3-4`, which is no level of its own."""


def agree(
    path: str | Path,
    raters: Sequence[str],
    reader: ReaderOptions | None = None,
    *,
    by: Sequence[str] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
    rejects_path: Path | None = None,
) -> dict[str, Any]:
    """Agreement of the columns `raters`: of all, of every two, in slices; and the pairs furthest apart.

    Labels are the levels of `reader.grades` (default: grades 1–5) by mean grade; an empty cell is no
    rating, a row with an invalid label a reject. Raises ArgumentError for missing columns,
    PairFileError for too many rejects.
    """
    file, reader = Path(path), reader or ReaderOptions()
    if len(set(raters)) < max(len(raters), 2):
        raise ArgumentError(f"--raters {','.join(raters)}: name two columns or more, each once")
    scheme = GradeMap.parse(reader.grades or EXACT)
    sets = sorted(set(scheme.sets.values()), key=lambda grades: (sum(grades) / len(grades), grades))

    def refuse(pair: Pair) -> Reject | None:
        for rater in raters:
            label = (pair.label if rater == "grade" else pair.extra.get(rater)) or ""
            try:
                if label.strip():
                    scheme.grades_of(label)
            except ValueError:
                text = f"{label}\t{pair.query}\t{pair.title}"
                return Reject.of(
                    pair.line, f"bad grade of {rater} (--grades: what labels mean)", text
                )
        return None

    source = reader.open(file, rejects_path=rejects_path, refuse=refuse)
    pairs = list(source)
    cells = [{**pair.extra, "grade": pair.label} for pair in pairs]
    columns = sorted(set().union(*cells))
    if missing := [rater for rater in raters if rater not in columns]:
        raise ArgumentError(
            f"--raters {missing[0]}: no such column in {file}; there are {', '.join(columns)}"
        )
    levels = np.full((len(pairs), len(raters)), -1)
    for row, labels in enumerate(cells):
        for column, rater in enumerate(raters):
            if label := (labels.get(rater) or "").strip():
                levels[row, column] = sets.index(scheme.grades_of(label))
    queries = np.array([pair.query for pair in pairs], dtype=object)
    drawn = {"resamples": resamples, "seed": seed}

    def figures(judged: Judgements) -> dict[str, Any]:
        return encode(evaluate(judged, metrics=OF_TWO, **drawn).metrics)  # type: ignore[no-any-return]

    def measured(rows: IntArray) -> dict[str, Any]:
        """α of all raters and the figures of every two, over some rows."""
        index, _ = index_queries(queries[rows].tolist())
        between = []
        for a, b in combinations(range(len(raters)), 2):
            both = rows[(levels[rows][:, [a, b]] >= 0).all(axis=1)]
            if not both.size:
                continue
            first, second = levels[both, a], levels[both, b]
            predicted = np.eye(len(sets))[second]
            judged = judge_levels(predicted, first.tolist(), queries[both].tolist())
            bias = {
                name_set(sets[level]): figures(judged.subset(first == level))["bias"]
                for level in np.unique(first)
            }
            two = {"a": raters[a], "b": raters[b], "metrics": figures(judged)}
            between.append(two | {"bias_by_label": bias, "confusion": confusion(judged).tolist()})
        return {"alpha": alpha(levels[rows], index, len(sets), **drawn), "between": between}

    overall = measured(np.arange(len(pairs)))
    if not overall["between"]:
        raise ArgumentError(f"{file}: no pair has a grade of two raters")
    apart = levels.max(axis=1) - np.where(levels < 0, len(sets), levels).min(axis=1)
    return {
        "schema": 1,
        "pairs": {"name": file.name, "sha256": sha256_file(file), "n_pairs": len(pairs)},
        "rejected": source.rejected,
        "labels": list(map(name_set, sets)),
        **overall,
        "slices": {
            column: {
                value: measured(np.flatnonzero(of))
                for value, of in by_column(pairs, column).items()
            }
            for column in by
        },
        "furthest": [
            {name: getattr(pairs[row], name) for name in ("line", "query", "title")}
            | {"labels": {rater: cells[row].get(rater) for rater in raters}}
            for row in np.argsort(-apart, kind="stable")[:FURTHEST]
            if apart[row] > 0
        ],
    }
