"""`qt-bert agree`: inter-rater agreement of a file with a column of grades per rater."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.codec import encode
from qt_bert.data.pairs import GradeMap, Pair, Reject
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import column_cells, joined
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.scoring.evaluate import by_column
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.evaluation import confusion, evaluate
from qt_bert.stats.judgements import Judgements, index_queries, judge_levels, name_set
from qt_bert.stats.metrics import METRICS, Metric, as_matrices, of_confusions, weighted_kappa
from qt_bert.text import Text

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

    A rater may stand in another file, FILE:COLUMN, joined by query and title.
    Labels are the levels of `reader.grades` (default: grades 1–5) by mean grade; an empty cell is no
    rating, a row with an invalid label a reject. Raises ArgumentError for missing columns,
    PairFileError for too many rejects.
    """
    file, reader = Path(path), reader or ReaderOptions()
    if len(set(raters)) < max(len(raters), 2):
        raise ArgumentError(f"--raters {','.join(raters)}: name two columns or more, each once")
    scheme = GradeMap.parse(reader.grades or EXACT)
    sets = scheme.ordered

    cells_of = joined(raters, reader)

    def refuse(pair: Pair) -> Reject | None:
        labels = cells_of(pair)
        for rater in raters:
            label = labels.get(rater, "").strip()
            if label and scheme.get(label) is None:
                text = f"{label}\t{pair.query}\t{pair.title}"
                return Reject.of(
                    pair.line, f"bad grade of {rater} (--grades: what labels mean)", text
                )
        return None

    source = reader.open(file, rejects_path=rejects_path, refuse=refuse)
    pairs = list(source)
    cells = list(map(cells_of, pairs))
    columns = [column_cells(cells, rater, f"--raters: {file}") for rater in raters]
    levels = np.array(
        [[sets.index(scheme.grades_of(cell)) if cell else -1 for cell in c] for c in columns]
    ).T
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


OF_TWO = {
    "kappa": Metric(
        name="kappa",
        title=Text("κ", "κ"),
        description=Text("扣除偶然一致后的一致性。", "Agreement beyond chance."),
        estimator=of_confusions(lambda c: weighted_kappa(c, 1 - np.eye(c.shape[1]))),
        undefined=Text("标注全都相同", "all labels are one"),
    ),
    "quadratic_kappa": METRICS["qwk"],
    "within_one": METRICS["within_one"],
    "bias": METRICS["bias"],
}
"""The metrics of two raters, the second one's levels as predictions of the first one's."""


def alpha(
    levels: IntArray, query_index: IntArray, n_levels: int, *, resamples: int, seed: int = 0
) -> dict[str, Any]:
    """Krippendorff's α for ordered `levels` [n, raters], −1 where a rater gave none.

    `{value, ci_low, ci_high, reason}`, with a bootstrap over the queries 0..Q−1 of the pairs [n]. K.
    Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
    """
    ratings, n_queries = (levels >= 0).sum(axis=1), int(query_index.max()) + 1
    table = np.zeros((n_queries, n_levels, n_levels))
    for a, b in permutations(levels.T, 2):
        both = (a >= 0) & (b >= 0)
        np.add.at(table, (query_index[both], a[both], b[both]), 1 / (ratings[both] - 1))
    flat = table.reshape(n_queries, -1)

    def estimate(weights: FloatArray) -> FloatArray:
        coincidences = as_matrices(weights @ flat)
        totals = coincidences.sum(axis=2)
        rank = totals.cumsum(axis=1) - totals / 2
        penalty = np.square(rank[:, :, None] - rank[:, None])
        observed = np.einsum("rck,rck->r", coincidences, penalty)
        expected = np.einsum("rc,rk,rck->r", totals, totals, penalty)
        return 1 - ratio(observed * (totals.sum(axis=1) - 1), expected)

    value = float(estimate(np.ones((1, n_queries)))[0])
    drawn = resample(
        [estimate], bootstrap_weights(n_queries, resamples, seed, width=flat.shape[1])
    )[0]
    ends = interval_or_reason(drawn, n_queries)
    if np.isnan(value):
        reason = "no pair has two labels, or all labels are one"
        return {"value": None, "ci_low": None, "ci_high": None, "reason": reason}
    return {"value": value} | dict(zip(("ci_low", "ci_high", "reason"), ends, strict=True))
