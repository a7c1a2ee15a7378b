"""Every metric of a set of judgements with its interval, and the tables beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, fractional_ranks, ratio, sum_by
from qt_bert.stats.estimate import (
    LEAST_QUERIES,
    RESAMPLES,
    from_leave_one_out,
    interval_or_reason,
)
from qt_bert.stats.judgements import Judgements, known
from qt_bert.stats.metrics import (
    BINS,
    METRICS,
    NO_ORDER,
    Metric,
    as_matrices,
    bootstrap,
    confidence,
    confidence_bin,
    confusion_by_query,
    f1_scores,
    ordered_pairs_by_query,
    sums_by_query,
)
from qt_bert.stats.tests import q_values, sign_flip_p


def confusion(judgements: Judgements) -> IntArray:
    """Numbers of pairs [L, L], rows the label, columns the prediction."""
    total = confusion_by_query(judgements).sum(axis=0)
    return np.asarray(as_matrices(total[None])[0], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeScores:
    """Precision, recall and F1 of one level; `support` and `predicted` count its pairs. None is 0/0."""

    level: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int
    predicted: int


def per_grade(judgements: Judgements) -> tuple[GradeScores, ...]:
    """The scores of each level."""
    by_query = confusion_by_query(judgements)
    counts, weighted = as_matrices(np.stack([by_query.sum(axis=0), judgements.weights @ by_query]))
    right = np.diagonal(weighted)
    shares = {
        "precision": ratio(right, weighted.sum(axis=0)),
        "recall": ratio(right, weighted.sum(axis=1)),
        "f1": f1_scores(weighted[None])[0],
    }
    return tuple(
        GradeScores(
            level=level,
            support=int(counts[i].sum()),
            predicted=int(counts[:, i].sum()),
            **{name: _number_or_none(column[i]) for name, column in shares.items()},
        )
        for i, level in enumerate(judgements.levels)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Mean top probability, accuracy and number of pairs with a top probability in (low, high]."""

    low: float
    high: float
    confidence: float | None
    accuracy: float | None
    count: int


def reliability(judgements: Judgements) -> tuple[ReliabilityBin, ...]:
    """The 15 bins of the ECE."""
    sure, weight = confidence(judgements), judgements.weights[judgements.query_index]
    bins = confidence_bin(sure)
    count, total = np.bincount(bins, minlength=BINS), sum_by(bins, weight, BINS)
    mean_confidence = ratio(sum_by(bins, weight * sure, BINS), total)
    accuracy = ratio(sum_by(bins, weight * known(judgements.correct), BINS), total)
    return tuple(
        ReliabilityBin(
            low=i / BINS,
            high=(i + 1) / BINS,
            confidence=_number_or_none(mean_confidence[i]),
            accuracy=_number_or_none(accuracy[i]),
            count=int(count[i]),
        )
        for i in range(BINS)
    )


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Title pairs of one query and different labels, by whether the scores order them as the labels do."""

    concordant: int
    discordant: int
    tied: int


def pnr_counts(judgements: Judgements) -> PairCounts:
    """Title pairs over all queries."""
    return PairCounts(*map(int, ordered_pairs_by_query(judgements).sum(axis=0)))


def signed_error(judgements: Judgements) -> FloatArray:
    """Score minus label of each pair [n]: of the expected grade or level; for one logit, whose scale is
    arbitrary, of the two ranks as shares of all pairs."""
    if judgements.truth is not None:
        return np.asarray(judgements.expected - judgements.truth - 1.0)
    if judgements.mode == "overlapping":
        return known(judgements.graded) - known(judgements.label_grade)
    return fractional_ranks(judgements.ranking_score) - fractional_ranks(judgements.ranking_truth)


def furthest_off(judgements: Judgements, limit: int) -> IntArray:
    """Indices of the pairs whose score lies furthest from the label, worst first [≤ limit]."""
    return np.argsort(-np.abs(signed_error(judgements)), kind="stable")[: max(limit, 0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceErrors:
    """The share of pairs graded wrong `inside` a slice and `outside` it, and their `difference`."""

    slice: str
    n: int
    n_queries: int
    inside: float
    outside: float
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float
    q: float | None = None


def errors_in_slices(
    judgements: Judgements,
    slices: Mapping[str, BoolArray],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[SliceErrors, ...]:
    """Shares of pairs graded wrong in each slice (a mask [n]) and in the rest, worst slice first.

    The difference is judged on jackknife pseudo-values over queries. Slices with fewer than
    LEAST_QUERIES queries inside or outside are left out; q is over the others.
    """
    wrong, rows = ~known(judgements.correct), list[SliceErrors]()
    for name, mask in slices.items():
        inside, outside = (sums_by_query(judgements, wrong & m, m) for m in (mask, ~mask))
        row = slice_difference(
            name, inside, outside, judgements.weights, resamples=resamples, seed=seed
        )
        rows += [row] if row else []
    q = q_values([row.p for row in rows])
    tested = [replace(row, q=value) for row, value in zip(rows, q, strict=True)]
    return tuple(sorted(tested, key=lambda row: -row.difference))


def slice_difference(
    name: str,
    inside: FloatArray,
    outside: FloatArray,
    weights: FloatArray | float = 1.0,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> SliceErrors | None:
    """The mean in a slice less that in the rest, judged on jackknife pseudo-values over queries, without q.

    `inside` and `outside` hold the sum of each query's values and their number [Q, 2], which count with the
    queries' `weights` [Q]. None for fewer than LEAST_QUERIES queries in either.
    """
    sums, counts = np.moveaxis(np.stack([inside, outside], axis=1), 2, 0)
    n, n_queries = counts.sum(axis=0), np.count_nonzero(counts, axis=0)
    if n_queries.min() < LEAST_QUERIES:
        return None
    sums, counts = (np.transpose(part.T * weights) for part in (sums, counts))
    means = sums.sum(axis=0) / counts.sum(axis=0)
    left = ratio(sums.sum(axis=0) - sums, counts.sum(axis=0) - counts)
    change = from_leave_one_out(means[0] - means[1], left[:, 0] - left[:, 1], range(len(counts)))
    low, high = (change.interval(resamples, seed) if resamples else None) or (None, None)
    return SliceErrors(
        slice=name,
        n=int(n[0]),
        n_queries=int(n_queries[0]),
        inside=float(means[0]),
        outside=float(means[1]),
        difference=change.value,
        ci_low=low,
        ci_high=high,
        p=float(sign_flip_p(change.centred, seed=seed)),
    )


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """One metric's figure: `value` over `n` pairs, 95 % interval, and a `reason` for each None.

    Ranking metrics also have the number of queries, and `n_eligible`, those that they use.
    """

    omit_none: ClassVar = ("n_eligible", "n_queries", "reason")

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    n_eligible: int | None = None
    n_queries: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`: metrics by name, and tables, None where undefined."""

    mode: str
    levels: tuple[str, ...]
    confusion: list[list[int]] | None
    per_grade: tuple[GradeScores, ...] | None
    reliability: tuple[ReliabilityBin, ...] | None
    pnr_counts: PairCounts
    settings: dict[str, float]
    metrics: dict[str, MetricValue]


def evaluate(
    judgements: Judgements,
    *,
    metrics: Mapping[str, Metric] = METRICS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Evaluation:
    """Compute the `metrics` with a 95 % bootstrap interval over queries.

    `resamples` 0 leaves the intervals out. Relevant is grade 4 and up, or the levels above the middle. An
    undefined metric has the value None and a reason.
    """
    levelled = judgements.truth is not None
    return Evaluation(
        mode=judgements.mode,
        metrics=_measure_all(judgements, metrics, resamples, seed),
        levels=judgements.levels,
        confusion=confusion(judgements).tolist() if levelled else None,
        per_grade=per_grade(judgements) if levelled else None,
        reliability=reliability(judgements) if levelled else None,
        pnr_counts=pnr_counts(judgements),
        settings={"resamples": resamples, "seed": seed, "auc_cut": judgements.auc_cut},
    )


def _measure_all(
    judgements: Judgements, metrics: Mapping[str, Metric], resamples: int, seed: int
) -> dict[str, MetricValue]:
    n, n_queries, eligible = len(judgements), judgements.n_queries, int(judgements.eligible.sum())
    defined = {
        name: metric for name, metric in metrics.items() if metric.refusal(judgements) is None
    }
    points, samples = bootstrap(judgements, list(defined.values()), resamples, seed)
    samples_of = dict(zip(defined, zip(points, samples, strict=True), strict=True))
    values = {}
    for name, metric in metrics.items():
        resting = eligible if metric.per_query else n_queries
        value = low = high = None
        reason = metric.refusal(judgements)
        if name in samples_of:
            point, resampled = samples_of[name]
            if np.isnan(point):
                reason = (NO_ORDER if metric.ranking and not resting else metric.undefined).en
            else:
                value = float(point)
                if metric.biased:
                    resampled = np.maximum(2 * value - resampled, 0)
                low, high, reason = interval_or_reason(resampled, n_queries)
        values[name] = MetricValue(
            value=value,
            ci_low=low,
            ci_high=high,
            n=n,
            n_eligible=resting if metric.ranking else None,
            n_queries=n_queries if metric.ranking else None,
            reason=reason,
        )
    return values
