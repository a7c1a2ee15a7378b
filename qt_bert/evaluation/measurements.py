"""Every metric of a set of judgements with its interval, and the tables beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation import tables
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import (
    RESAMPLES,
    bootstrap_weights,
    interval_or_reason,
    resample,
)
from qt_bert.evaluation.judgements import Judgements
from qt_bert.evaluation.metrics import METRICS, Metric

NO_ELIGIBLE = "no query has titles of two grades"


@dataclass(frozen=True)
class Measurement:
    """One metric's figure: `value` over `n` pairs, 95 % interval, and a `reason` for each None.

    Ranking metrics also say how many of the `n_queries` queries they rest on.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
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
    metrics: dict[str, Measurement]
    levels: tuple[str, ...]
    confusion: list[list[int]] | None
    per_grade: list[dict[str, Any]] | None
    reliability: list[dict[str, Any]] | None
    pnr_counts: dict[str, int] | None
    settings: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """One object: metric → `{value, ci_low, ci_high, n, …}`, then the tables."""
        return {name: metric.to_json() for name, metric in self.metrics.items()} | {
            "mode": self.mode,
            "levels": list(self.levels),
            "confusion": self.confusion,
            "per_grade": self.per_grade,
            "reliability": self.reliability,
            "pnr_counts": self.pnr_counts,
            "settings": self.settings,
        }


def evaluate(
    judgements: Judgements,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    auc_cut: float | None = None,
) -> Evaluation:
    """Compute every metric with a 95 % bootstrap interval over queries.

    `resamples` 0 leaves the intervals out. `auc_cut` is the least grade (or level number) that
    AUC counts as relevant; by default 4, or the first level above the middle. A metric that is
    not defined has the value None and a reason. Raises ArgumentError for a bad argument.
    """
    if auc_cut is not None:
        if not np.isfinite(auc_cut):
            raise ArgumentError(f"the AUC cut is {auc_cut}; it must be a grade, for instance 4")
        judgements = replace(judgements, auc_cut=float(auc_cut))
    levelled = judgements.truth is not None
    return Evaluation(
        mode=judgements.mode,
        metrics=_measure_all(judgements, resamples, seed),
        levels=judgements.levels,
        confusion=tables.confusion(judgements).tolist() if levelled else None,
        per_grade=tables.per_grade(judgements) if levelled else None,
        reliability=tables.reliability(judgements) if levelled else None,
        pnr_counts=None if judgements.mode == "score" else tables.pnr_counts(judgements),
        settings={"resamples": resamples, "seed": seed, "auc_cut": judgements.auc_cut},
    )


def evaluate_slices(
    judgements: Judgements,
    values: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    auc_cut: float | None = None,
) -> dict[str, Evaluation]:
    """Evaluate the pairs of each distinct value (one value a pair [n]) by themselves.

    All slices are judged at the levels of the whole. Keys are sorted. Raises ArgumentError where
    there is not one value for each pair.
    """
    if len(values) != len(judgements):
        raise ArgumentError(f"{len(values)} slice values for {len(judgements)} judged pairs")
    names, index = np.unique(np.asarray(values, dtype=object), return_inverse=True)
    return {
        str(name): evaluate(
            judgements.subset(index == place), resamples=resamples, seed=seed, auc_cut=auc_cut
        )
        for place, name in enumerate(names)
    }


def _measure_all(judgements: Judgements, resamples: int, seed: int) -> dict[str, Measurement]:
    defined = [metric for metric in METRICS.values() if metric.refusal(judgements) is None]
    estimators = [metric.estimator(judgements) for metric in defined]
    weights = bootstrap_weights(judgements.n_queries, resamples, seed, width=len(judgements))
    points = resample(estimators, iter([np.ones((1, judgements.n_queries))]))[:, 0]
    samples = resample(estimators, weights)
    rows = {metric.name: row for row, metric in enumerate(defined)}
    return {
        name: _measure(metric, judgements, points[rows[name]], samples[rows[name]])
        if name in rows
        else _refuse(metric, judgements)
        for name, metric in METRICS.items()
    }


def _measure(
    metric: Metric, judgements: Judgements, point: float, samples: FloatArray
) -> Measurement:
    measurement = _refuse(metric, judgements)
    n_eligible = measurement.n_eligible
    if np.isnan(point):
        return replace(measurement, reason=NO_ELIGIBLE if n_eligible == 0 else metric.undefined)
    low, high, reason = interval_or_reason(samples, judgements.n_queries)
    return replace(measurement, value=float(point), ci_low=low, ci_high=high, reason=reason)


def _refuse(metric: Metric, judgements: Judgements) -> Measurement:
    """The measurement without a value: its counts, and why this kind of labels refuses it."""
    eligible = int(judgements.eligible.sum()) if metric.per_query else judgements.n_queries
    ranking = metric.needs == "ranking"
    return Measurement(
        value=None,
        ci_low=None,
        ci_high=None,
        n=len(judgements),
        n_eligible=eligible if ranking else None,
        n_queries=judgements.n_queries if ranking else None,
        reason=metric.refusal(judgements),
    )
