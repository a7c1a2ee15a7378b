"""`qt-bert agree`: how far the raters of a file agree, each a column of grades."""

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
from qt_bert.scoring.slices import by_column
from qt_bert.stats.agreement import OF_TWO, alpha
from qt_bert.stats.arrays import IntArray
from qt_bert.stats.estimate import RESAMPLES
from qt_bert.stats.evaluation import confusion, evaluate
from qt_bert.stats.judgements import Judgements, index_queries, judge_levels, name_set

FURTHEST = 10
EXACT = "1=1,2=2,3=3,4=4,5=5"
"""A rater says one grade: what lies between two is no level of its own."""


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
    """How far the columns `raters` of a file agree: all, every two, in slices; the pairs furthest apart.

    Labels are the levels of `reader.grades` (default: grades 1–5) by mean grade; an empty cell is no
    rating, a row with a label that is no grade a reject. Raises ArgumentError for columns that are not
    there, PairFileError for too many rejects.
    """
    file, reader = Path(path), reader or ReaderOptions()
    if len(set(raters)) < max(len(raters), 2):
        raise ArgumentError(f"--raters {','.join(raters)}: name two columns or more, each once")
    scheme = GradeMap.parse(reader.grades or EXACT)
    sets = sorted(set(scheme.sets.values()), key=lambda one: (sum(one) / len(one), one))

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

    rows = reader.open(file, rejects_path=rejects_path, refuse=refuse)
    pairs = list(rows)
    cells = [{**pair.extra, "grade": pair.label} for pair in pairs]
    there = sorted(set().union(*cells))
    if missing := [one for one in raters if one not in there]:
        raise ArgumentError(
            f"--raters {missing[0]}: no such column in {file}; there are {', '.join(there)}"
        )
    levels = np.full((len(pairs), len(raters)), -1)
    for own, level in zip(cells, levels, strict=True):
        for place, rater in enumerate(raters):
            if label := (own.get(rater) or "").strip():
                level[place] = sets.index(scheme.grades_of(label))
    queries = np.array([pair.query for pair in pairs], dtype=object)
    drawn = {"resamples": resamples, "seed": seed}

    def figures(judged: Judgements) -> dict[str, Any]:
        return encode(evaluate(judged, metrics=OF_TWO, **drawn).metrics)  # type: ignore[no-any-return]

    def measured(at: IntArray) -> dict[str, Any]:
        """α of all raters and the figures of every two, of the pairs at some places."""
        index, _ = index_queries(queries[at].tolist())
        between = []
        for a, b in combinations(range(len(raters)), 2):
            both = at[(levels[at][:, [a, b]] >= 0).all(axis=1)]
            if not both.size:
                continue
            first, second = levels[both, a], levels[both, b]
            given = np.eye(len(sets))[second]
            judged = judge_levels(given, first.tolist(), queries[both].tolist())
            bias = {
                name_set(sets[level]): figures(judged.subset(first == level))["bias"]
                for level in np.unique(first)
            }
            two = {"a": raters[a], "b": raters[b], "metrics": figures(judged)}
            between.append(two | {"bias_by_label": bias, "confusion": confusion(judged).tolist()})
        return {"alpha": alpha(levels[at], index, len(sets), **drawn), "between": between}

    found = measured(np.arange(len(pairs)))
    if not found["between"]:
        raise ArgumentError(f"{file}: no pair has a grade of two raters")
    apart = levels.max(axis=1) - np.where(levels < 0, len(sets), levels).min(axis=1)
    return {
        "schema": 1,
        "pairs": {"name": file.name, "sha256": sha256_file(file), "n_pairs": len(pairs)},
        "rejected": rows.rejected,
        "labels": list(map(name_set, sets)),
        **found,
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
