"""Every metric of a set of judgements with its interval, and the tables beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, fractional_ranks, ratio, sum_by
from qt_bert.stats.estimate import from_leave_one_out
from qt_bert.stats.intervals import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements, known
from qt_bert.stats.metrics import (
    BINS,
    METRICS,
    NO_ORDER,
    Metric,
    as_matrices,
    confidence,
    confidence_bin,
    confusion_by_query,
    f1_scores,
    ordered_pairs_by_query,
    sums_by_query,
)
from qt_bert.stats.tests import q_values, sign_flip_p
from qt_bert.stats.verdict import LEAST_QUERIES

# Tables beside the metrics: confusion, figures of each grade, reliability, furthest pairs.


def confusion(judgements: Judgements) -> IntArray:
    """Numbers of pairs [L, L], rows the label, columns the prediction."""
    total = confusion_by_query(judgements).sum(axis=0)
    return np.asarray(as_matrices(total[None])[0], dtype=np.int64)


def per_grade(judgements: Judgements) -> list[dict[str, Any]]:
    """`{level, precision, recall, f1, support, predicted}` of each level; None for 0/0."""
    counts = confusion(judgements).astype(np.float64)
    right, support, predicted = np.diagonal(counts), counts.sum(axis=1), counts.sum(axis=0)
    shares = {
        "precision": ratio(right, predicted),
        "recall": ratio(right, support),
        "f1": f1_scores(counts[None])[0],
    }
    return [
        {"level": level}
        | {name: _number_or_none(column[i]) for name, column in shares.items()}
        | {"support": int(support[i]), "predicted": int(predicted[i])}
        for i, level in enumerate(judgements.levels)
    ]


def reliability(judgements: Judgements) -> list[dict[str, Any]]:
    """`{low, high, confidence, accuracy, count}` of each of the 15 bins of the ECE."""
    sure = confidence(judgements)
    bins = confidence_bin(sure)
    count = np.bincount(bins, minlength=BINS)
    mean_confidence = ratio(sum_by(bins, sure, BINS), count.astype(np.float64))
    accuracy = ratio(sum_by(bins, known(judgements.correct), BINS), count.astype(np.float64))
    return [
        {
            "low": i / BINS,
            "high": (i + 1) / BINS,
            "confidence": _number_or_none(mean_confidence[i]),
            "accuracy": _number_or_none(accuracy[i]),
            "count": int(count[i]),
        }
        for i in range(BINS)
    ]


def pnr_counts(judgements: Judgements) -> dict[str, int]:
    """Title pairs of one query and different labels: concordant, discordant, tied in score."""
    totals = ordered_pairs_by_query(judgements).sum(axis=0)
    return dict(zip(("concordant", "discordant", "tied"), map(int, totals), strict=True))


def signed_error(judgements: Judgements) -> FloatArray:
    """How far the score of each pair lies above its label [n], below it under 0.

    The distance is that of the expected grade (or level) from the label; for a one-logit model,
    whose scale says nothing, that of the two ranks, as shares of all pairs.
    """
    if judgements.truth is not None:
        return np.asarray(judgements.expected - judgements.truth - 1.0)
    if judgements.mode == "overlapping":
        return judgements.ranking_score - judgements.ranking_truth
    return fractional_ranks(judgements.ranking_score) - fractional_ranks(judgements.ranking_truth)


def furthest_off(judgements: Judgements, limit: int) -> IntArray:
    """Indices of the pairs whose score lies furthest from the label, worst first [≤ limit]."""
    distance = np.abs(signed_error(judgements))
    return np.argsort(-distance, kind="stable")[: max(limit, 0)]


def errors_in_slices(
    judgements: Judgements,
    slices: Mapping[str, BoolArray],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Shares of pairs graded wrong in each slice (a mask [n]) and in the rest, worst slice first.

    Their `difference` is judged on jackknife pseudo-values over queries; q is over all slices, but those
    with fewer than LEAST_QUERIES queries inside or outside, which are left out.
    """
    wrong, found = ~known(judgements.correct), list[dict[str, Any]]()
    for name, mask in slices.items():
        counts = sums_by_query(judgements, mask, ~mask)
        errors = sums_by_query(judgements, wrong & mask, wrong & ~mask)
        n, n_queries = counts.sum(axis=0), np.count_nonzero(counts, axis=0)
        if n_queries.min() < LEAST_QUERIES:
            continue
        inside, outside = errors.sum(axis=0) / n
        left = ratio(errors.sum(axis=0) - errors, n - counts)
        change = from_leave_one_out(inside - outside, left[:, 0] - left[:, 1], range(len(counts)))
        low, high = (change.interval(resamples, seed) if resamples else None) or (None, None)
        told = {"slice": name, "n": int(n[0]), "n_queries": int(n_queries[0])}
        told |= {"inside": float(inside), "outside": float(outside), "difference": change.value}
        told |= {"ci_low": low, "ci_high": high, "p": float(sign_flip_p(change.centred, seed=seed))}
        found.append(told)
    for one, q in zip(found, q_values([one["p"] for one in found]), strict=True):
        one["q"] = q
    return sorted(found, key=lambda one: -one["difference"])


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """One metric's figure: `value` over `n` pairs, 95 % interval, and a `reason` for each None.

    Ranking metrics also say how many of the `n_queries` queries they rest on.
    """

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    n_eligible: int | None = None
    n_queries: int | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields, without the counts and the reason where there is none."""
        optional = ("n_eligible", "n_queries", "reason")
        return {k: v for k, v in asdict(self).items() if v is not None or k not in optional}


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found: metrics by name, and tables that are None where undefined."""

    mode: str
    levels: tuple[str, ...]
    confusion: list[list[int]] | None
    per_grade: list[dict[str, Any]] | None
    reliability: list[dict[str, Any]] | None
    pnr_counts: dict[str, int]
    settings: dict[str, float]
    metrics: dict[str, MetricValue]

    def to_json(self) -> dict[str, Any]:
        """The tables, and last `metrics`: each as `{value, ci_low, ci_high, n, …}`."""
        metrics = {name: metric.to_json() for name, metric in self.metrics.items()}
        return vars(self) | {"levels": list(self.levels), "metrics": metrics}


def evaluate(
    judgements: Judgements,
    *,
    metrics: Mapping[str, Metric] = METRICS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Evaluation:
    """Compute every one of the `metrics` with a 95 % bootstrap interval over queries.

    `resamples` 0 leaves the intervals out. AUC counts as relevant what has at least
    grade 4, or the first level above the middle. A metric that is
    not defined has the value None and a reason.
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
    defined = {name: one for name, one in metrics.items() if one.refusal(judgements) is None}
    estimators = [metric.estimator(judgements) for metric in defined.values()]
    points = resample(estimators, iter([np.ones((1, n_queries))]))[:, 0]
    samples = resample(estimators, bootstrap_weights(n_queries, resamples, seed, width=n))
    found = dict(zip(defined, zip(points, samples, strict=True), strict=True))
    measured = {}
    for name, metric in metrics.items():
        resting = eligible if metric.per_query else n_queries
        ranking = metric.needs == "ranking"
        value = low = high = None
        reason = metric.refusal(judgements)
        if name in found:
            point, drawn = found[name]
            if np.isnan(point):
                reason = NO_ORDER if ranking and not resting else metric.undefined
            else:
                value = float(point)
                low, high, reason = interval_or_reason(drawn, n_queries)
        measured[name] = MetricValue(
            value=value,
            ci_low=low,
            ci_high=high,
            n=n,
            n_eligible=resting if ranking else None,
            n_queries=n_queries if ranking else None,
            reason=reason,
        )
    return measured
