"""`compare --unlabelled`: how far two scorers differ on pairs without labels, such as a day's traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.files import sha256_file
from qt_bert.scoring.evaluate import automatic, by_column
from qt_bert.scoring.judge import PairScorer, read_outputs, refusal, requested_calibration
from qt_bert.stats.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    fractional_ranks,
    mid_ranks,
    ratio,
    sum_by,
)
from qt_bert.stats.estimate import CONFIDENCE, RESAMPLES, pooled
from qt_bert.stats.evaluation import slice_difference
from qt_bert.stats.judgements import index_queries
from qt_bert.stats.tests import q_values

MEASURES = {
    "first_title": (0.0, 1.0),
    "rank_correlation": (1.0, -1.0),
    "moved_one": (0.0, 1.0),
    "moved_two": (0.0, 1.0),
}
"""Measure → its value where the scorers agree, and where they differ most:

- `first_title`: the share of queries whose first title changes; of titles that tie for the first place, the
  share that only one scorer puts there;
- `rank_correlation`: Spearman's ρ of a query's titles, mean over queries; 0 where one scorer ties them all;
- `moved_one`, `moved_two`: the share of pairs whose grade moves by one, by two or more.

The first two rest on queries with two titles or more.
"""
MOST = 20


def compare_unlabelled(
    path: Path,
    reader: ReaderOptions,
    a: PairScorer,
    b: PairScorer,
    *,
    by: Sequence[str] = (),
    seed: int = 0,
    rejects_path: Path | None = None,
    calibrated: bool = False,
) -> dict[str, Any]:
    """The MEASURES with intervals, by columns too; automatic slices against the rest, those that differ most
    first, q over all; the MOST queries that differ most. A pair that repeats counts once."""
    rows = reader.open(path, refuse=refusal((a, b)), rejects_path=rejects_path)
    pairs = list({(pair.query, pair.title): pair for pair in rows}.values())
    texts = [(pair.query, pair.title) for pair in pairs]
    applied = [requested_calibration(scorer, calibrated) for scorer in (a, b)]
    read = [
        read_outputs(scorer.logits(texts), scorer.settings.labels, how)
        for scorer, how in zip((a, b), applied, strict=True)
    ]
    scores = np.array([outputs.ranking_score for outputs in read])
    index, n_queries = index_queries([pair.query for pair in pairs])
    moved, names = None, read[0].labels.names
    if read[0].predicted and read[0].labels == read[1].labels:
        first, second = ([names.index(name) for name in out.predicted or ()] for out in read)
        moved = np.abs(np.subtract(first, second))

    def summed(rows: BoolArray) -> dict[str, FloatArray]:
        some = None if moved is None else moved[rows]
        return _sums(scores[:, rows], some, index[rows], n_queries)

    auto: list[dict[str, Any]] = []
    for name, inside in automatic(pairs).items():
        rest = summed(~inside)
        for measure, sums in summed(inside).items():
            row = slice_difference(name, sums, rest[measure], seed=seed)
            auto += [{"measure": measure, **asdict(row)}] if row else []
    for slice_row, q in zip(auto, q_values([row["p"] for row in auto]), strict=True):
        slice_row["q"] = q
    everywhere = summed(np.ones(len(pairs), np.bool_))
    return {
        "pairs": {"name": path.name, "sha256": sha256_file(path), "n_pairs": len(pairs)},
        "n_queries": n_queries,
        "rejected": rows.rejected,
        "repeated": rows.accepted - len(pairs),
        "metrics": _measured(everywhere, seed),
        "slices": {
            column: {
                v: _measured(summed(some), seed) for v, some in by_column(pairs, column).items()
            }
            for column in by
        },
        "auto_slices": sorted(auto, key=lambda row: -row["difference"] / span(row["measure"])),
        "queries": _most_different(pairs, scores, index, everywhere["first_title"][:, 0]),
    }


def span(measure: str) -> float:
    """How far a measure goes from where scorers agree; below 0 where it falls."""
    agree, differ = MEASURES[measure]
    return differ - agree


def _sums(
    scores: FloatArray, moved: IntArray | None, index: IntArray, n_queries: int
) -> dict[str, FloatArray]:
    """Measure → of each query the sum of its values and their number [Q, 2]; `scores` [2, n]."""

    def total(values: Any) -> FloatArray:
        return sum_by(index, values, n_queries)

    def centred(score: FloatArray) -> FloatArray:
        """Ranks within each query, less their mean."""
        place = np.unique(score, return_inverse=True)[1] + index * len(score)
        ranks = mid_ranks(place.astype(np.float64))
        return ranks - ratio(total(ranks), titles)[index]

    titles = total(np.ones(len(index)))
    a, b = (_first(score, index, n_queries) for score in scores)
    x, y = map(centred, scores)
    spread = total(x * x), total(y * y)
    rho = np.nan_to_num(ratio(total(x * y), np.sqrt(spread[0] * spread[1])))
    ranked = spread[0] + spread[1] > 0
    changed = np.nan_to_num(1 - ratio(total(a & b), total(a | b)))
    sums: dict[str, tuple[Any, Any]]
    sums = {"first_title": (changed, titles > 1), "rank_correlation": (rho, ranked)}
    if moved is not None:
        sums |= {"moved_one": (total(moved == 1), titles), "moved_two": (total(moved > 1), titles)}
    return {name: np.stack(columns, axis=1, dtype=np.float64) for name, columns in sums.items()}


def _first(score: FloatArray, index: IntArray, n_queries: int) -> BoolArray:
    """Which titles have the highest score of their query [n]."""
    best = np.full(n_queries, -np.inf)
    np.maximum.at(best, index, score)
    return np.asarray(score == best[index])


def _measured(sums: dict[str, FloatArray], seed: int) -> dict[str, dict[str, Any]]:
    """Each measure with its 95 % interval over queries, within the measure's range.

    A mean over n queries differs from full agreement by a share of the measure's range, and lies within the exact
    interval of n draws with that share (C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial
    limits", Biometrika 26, 1934); where all queries agree, the bootstrap sees no spread, and that interval stands.
    """
    from scipy.stats import beta

    result = {}
    for name, ends in MEASURES.items():
        of_query = sums.get(name, np.zeros((0, 2)))
        estimate = pooled(of_query[:, 0], of_query[:, 1], range(len(of_query)))
        n, value, low, high = estimate.n_queries, estimate.value, None, None
        if n and (interval := estimate.interval(RESAMPLES, seed)):
            k = n * (value - min(ends)) / (max(ends) - min(ends))
            tail = (1 - CONFIDENCE) / 2
            shares = beta.ppf([tail, 1 - tail], [k, k + 1], [n - k + 1, n - k])
            exact = min(ends) + (max(ends) - min(ends)) * np.where(np.isnan(shares), [0, 1], shares)
            low, high = (float(end) for end in np.clip(interval, min(ends), max(ends)))
            if low == high:
                low, high = map(float, exact)
            elif not name.startswith("moved"):  # a mean of queries
                low, high = max(low, float(exact[0])), min(high, float(exact[1]))
        reason = (
            "no query has two titles in an order"
            if name in sums
            else "both models must give the same grades"
        )
        result[name] = {
            "value": value if n else None,
            "ci_low": low,
            "ci_high": high,
            "n": int(of_query[:, 1].sum()),
            "n_queries": n,
            "reason": None if n > 1 else "a single query has no interval" if n else reason,
        }
    return result


def _most_different(
    pairs: Sequence[Pair], scores: FloatArray, index: IntArray, changed: FloatArray
) -> list[dict[str, Any]]:
    """The MOST queries, those first whose first title has `changed` [Q], by how far ranks over all pairs
    differ. Titles in the order of the first scorer."""
    apart = np.abs(np.subtract(*map(fractional_ranks, scores)))
    gap = sum_by(index, apart, len(changed)) / np.bincount(index)
    shown = []
    for query in np.lexsort((-gap, -changed))[:MOST]:
        rows = np.flatnonzero(index == query)
        titles = [
            {"line": pairs[i].line, "title": pairs[i].title, "a": scores[0, i], "b": scores[1, i]}
            for i in rows[np.argsort(-scores[0, rows], kind="stable")]
        ]
        shown.append({"query": pairs[rows[0]].query, "titles": titles})
    return shown
