"""Two models on the same pairs: paired intervals and tests of every metric's difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any, ClassVar

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import FloatArray, IntArray, fractional_ranks
from qt_bert.stats.estimate import (
    CONFIDENCE,
    RESAMPLES,
    Estimate,
    chunk_sizes,
    from_leave_one_out,
    interval_or_reason,
    joined,
    resample,
    t_quantile,
)
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS, OTHER_LEVELS, Estimator, Metric, Sums, bootstrap

DRAWS = 9_999
ROUNDING = 1e-10
SAME = 1e-4
"""Probabilities, or scores in standard deviations, that differ by no more are the same."""
ENOUGH = 40
TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDifference:
    """One metric of models a and b; `difference` is b − a with its paired 95 % interval.

    `p` is two-sided: the chance of a difference this large if the two models' predictions were
    swapped at random, query by query. A None has its `reason`. `n_eligible`: of the
    metrics that are `per_query`, the queries that they use.
    """

    omit_none: ClassVar = ("n_eligible",)

    value_a: float | None
    value_b: float | None
    difference: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    n: int
    n_queries: int
    n_eligible: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; `most_different` are indices of the pairs that differ most."""

    metrics: dict[str, MetricDifference]
    most_different: list[int]
    settings: dict[str, int]


def compare(
    a: Judgements | Sequence[Judgements],
    b: Judgements | Sequence[Judgements],
    *,
    metrics: Sequence[str | Metric] | None = None,
    resamples: int = RESAMPLES,
    draws: int = DRAWS,
    seed: int = 0,
    most_different: int = 20,
) -> Comparison:
    """Compare two models on the same pairs, by every metric or those in `metrics`.

    The interval is a bootstrap over queries in which both models see the same resample, joined with
    `unseen_reach`. The p-value swaps the two predictions of whole queries at random, `draws` times:
    p = (1 + draws at least as large) / (1 + draws). A draw without a value counts as large.
    For AUC and Spearman the ranks that each model gives over all pairs are swapped, so that two scales never
    mix.

    A side may be several models, which training drew with other seeds: the difference is that of their means,
    without p, and its interval over queries is joined with `seeds_reach`. Raises ArgumentError where pairs or
    labels differ, or a metric is unknown.
    """
    sides = [[side] if isinstance(side, Judgements) else list(side) for side in (a, b)]
    a, b = (side[0] for side in sides)
    for first, other in ((side[0], other) for side in sides for other in side):
        _check_same_pairs(a, other)
        if (other.mode, other.levels) != (first.mode, first.levels):
            raise ArgumentError("one model of several seeds is judged at other levels")
    named = METRICS if metrics is None else metrics
    if unknown := [name for name in named if isinstance(name, str) and name not in METRICS]:
        raise ArgumentError(f"no metric is called {unknown[0]!r}; there are {', '.join(METRICS)}")
    chosen = [METRICS[metric] if isinstance(metric, str) else metric for metric in named]
    refusals = {metric.name: refusal(metric, a, b) for metric in chosen}
    tested = [metric for metric in chosen if refusals[metric.name] is None]
    values, drawn = [], []
    for side in sides:
        of_models = [bootstrap(model, tested, resamples, seed) for model in side]
        values.append(np.array([points for points, _ in of_models]))
        drawn.append(np.mean([samples for _, samples in of_models], axis=0))
    draws = draws if len(sides[0]) == len(sides[1]) == 1 else 0
    p_values = swap_p_values(a, [b], tested, draws=draws, seed=seed)[0]
    rows = {metric.name: row for row, metric in enumerate(tested)}
    eligible = int(a.eligible.sum())
    pooled = [side_by_side(one, other) for one in sides[0] for other in sides[1]]
    same = {
        ranking: all(_same_outputs(a, model, ranking) for side in sides for model in side)
        for ranking in {metric.ranking for metric in tested}
    }
    differences: dict[str, MetricDifference] = {}
    for metric in chosen:
        value_a = value_b = difference = low = high = p = None
        if (reason := refusals[metric.name]) is None:
            row = rows[metric.name]
            each = [side[:, row] for side in values]
            value_a, value_b = (None if np.isnan(v).any() else float(v.mean()) for v in each)
            reason = metric.undefined.en
            if value_a is not None and value_b is not None:
                difference = value_b - value_a
                low, high, reason = interval_or_reason(drawn[1][row] - drawn[0][row], a.n_queries)
                if low is not None and high is not None:
                    reach = seeds_reach(*each)
                    if not same[metric.ranking]:
                        resting = eligible if metric.per_query else a.n_queries
                        reach = float(np.hypot(reach, unseen_reach(a, pooled, metric, resting)))
                    if reach:
                        low, high = map(float, joined(difference, low, high, reach))
                p = None if np.isnan(p_values[row]) else float(p_values[row])
        differences[metric.name] = MetricDifference(
            value_a=value_a,
            value_b=value_b,
            difference=difference,
            ci_low=low,
            ci_high=high,
            p=p,
            n=len(a),
            n_queries=a.n_queries,
            n_eligible=eligible if metric.per_query else None,
            reason=reason,
        )
    return Comparison(
        metrics=differences,
        most_different=differ_most(sides[0], sides[1], most_different).tolist(),
        settings={"resamples": resamples, "draws": draws, "seed": seed},
    )


def seeds_reach(a: FloatArray, b: FloatArray) -> float:
    """Half-width of the 95 % interval that seeds add to the difference of two models' means.

    `a` and `b` are a metric's values [seeds]; the half-width is t·√(s²ₐ/kₐ + s²_b/k_b), with the degrees of
    freedom of B. L. Welch ("The generalization of Student's problem", Biometrika 34, 1947). A model of one
    seed is that model, no draw. Joined with the half-widths over queries in quadrature (G. Y. Zou and A.
    Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008);
    the seeds' share of the error that is a query's own is in both, so the interval is rather too wide.
    """
    errors = [np.var(side, ddof=1) / len(side) for side in (a, b) if len(side) > 1]
    if not sum(errors):
        return 0.0
    sizes = [len(side) - 1 for side in (a, b) if len(side) > 1]
    freedom = sum(errors) ** 2 / sum(e**2 / n for e, n in zip(errors, sizes, strict=True))
    return t_quantile(float(freedom)) * float(np.sqrt(sum(errors)))


def unseen_reach(a: Judgements, pooled: Sequence[Judgements], metric: Metric, n: int) -> float:
    """Half-width that changes whose like none of the `n` queries shows add to a metric's difference from `a`.

    `pooled`: each pair of models that are compared, `side_by_side`. Of the same outputs there is none.

    A bootstrap draws only the changes that it has seen. What no query shows, a share of 1 − .025^(1/n) of all may
    (C. J. Clopper and E. S. Pearson, Biometrika 26, 1934). Its size is the geometric mean of 1, the range of a
    share, and of the changes seen: S^(k / (k + 1)) with S = Σc² / Σ|c| and their effective number k = Σ|c| / S
    (L. Kish, "Survey Sampling", 1965), c being a query's change less the median. It fades with k, to 0 for ENOUGH
    changes, where the bootstrap alone covers the difference. Where every query changes a little, as in ρ over all
    pairs, rare large changes that none shows stay unknown.
    """
    changes = n * np.nan_to_num(
        np.mean([changes_by_query(both, metric) for both in pooled], axis=0)
    )
    apart = np.abs(changes - np.median(changes))
    apart = apart[apart > ROUNDING]
    if not apart.size and metric.ranking:
        turned = side_by_side(a, replace(a, ranking_score=-a.ranking_score))
        if not changes_by_query(turned, metric).any():
            return 0.0  # no order changes it, as recall@5 of five titles
    typical = (apart**2).sum() / apart.sum() if apart.size else 1.0
    seen = min(apart.sum() / typical, ENOUGH)
    size = typical ** (seen / (seen + 1))
    return float(size * (1 - TAIL ** (1 / n)) * np.sqrt(1 - seen / ENOUGH))


def queries_without(share: float) -> int:
    """How many queries without a case show that fewer than this share of all have one."""
    return ceil(log(TAIL) / log(1 - share))


def changes_by_query(pooled: Judgements, metric: Metric) -> FloatArray:
    """What each query gives to b − a, two models `side_by_side`: half of what is lost where its two predictions
    are swapped [Q]."""
    sums = (metric.of_ranks or metric.estimator)(pooled)
    assert isinstance(sums, Sums)
    of_a, of_b = np.split(sums.table * pooled.weights[:, None], 2)
    swapped, total_a, total_b = of_b - of_a, of_a.sum(axis=0), of_b.sum(axis=0)
    value = sums.combine
    difference = value(total_b[None]) - value(total_a[None])
    return np.asarray(difference - value(total_b - swapped) + value(total_a + swapped)) / 2


def _same_outputs(a: Judgements, b: Judgements, ranking: bool) -> bool:
    """Whether all outputs are the same up to rounding, or, of a score on any scale, their order."""
    if not ranking and a.level_probabilities is not None and b.level_probabilities is not None:
        return np.allclose(a.level_probabilities, b.level_probabilities, rtol=0, atol=SAME)
    first, second = a.ranking_score, b.ranking_score
    return np.allclose(first, second, rtol=0, atol=SAME * first.std()) or np.array_equal(
        fractional_ranks(first), fractional_ranks(second)
    )


def swap_p_values(
    a: Judgements,
    others: Sequence[Judgements],
    metrics: Sequence[Metric],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> FloatArray:
    """Two-sided p of each other model's difference from a, by every metric [others, metrics].

    The two predictions of whole queries are swapped at random, `draws` times, with the same swaps
    for every model; p = (1 + draws at least as large) / (1 + draws), and a draw without a value
    counts as large. NaN where a metric has no value, and everywhere for 0 draws. All models must
    hold the pairs of a, in modes that define the metrics. Raises ArgumentError for draws < 0.
    """
    if draws < 0:
        raise ArgumentError(f"draws is {draws}; it must be 0 (no test) or more")
    estimators = [
        (metric.of_ranks or metric.estimator)(pooled)
        for pooled in (side_by_side(a, b) for b in others)
        for metric in metrics
    ]
    unswapped = np.concatenate([a.weights, np.zeros(a.n_queries)])[None]
    observed = np.abs(_side_differences(estimators, unswapped))
    hits = np.zeros(len(estimators))
    for weights in _swap_weights(a, draws, seed):
        swapped = np.abs(_side_differences(estimators, weights))
        hits += (~(swapped < observed - ROUNDING)).sum(axis=1)
    tested = ~np.isnan(observed).any(axis=1) & (draws > 0)
    return np.where(tested, (1 + hits) / (1 + draws), np.nan).reshape(len(others), len(metrics))


def _check_same_pairs(a: Judgements, b: Judgements) -> None:
    """ArgumentError unless both hold the same queries and labels in the same order."""
    if len(a) != len(b):
        raise ArgumentError(f"the two models were judged on {len(a)} and {len(b)} pairs")
    differs = (a.query_index != b.query_index) | (a.ranking_truth != b.ranking_truth)
    if differs.any():
        row = int(np.argmax(differs))
        raise ArgumentError(f"pair {row} has another query or label for the second model")


def graded_score(models: Sequence[Judgements]) -> FloatArray:
    """The expected grade or level of each pair, also of one calibrated logit, or the score where there are none;
    the mean over the models [n]."""
    return np.mean([m.ranking_score if m.graded is None else m.graded for m in models], axis=0)


def differ_most(a: Sequence[Judgements], b: Sequence[Judgements], limit: int) -> IntArray:
    """Indices of the pairs whose `graded_score` (its rank, where one side has no grades) differs most [≤ limit]."""
    scores = [graded_score(a), graded_score(b)]
    if {"score", "numbers"} & {a[0].mode, b[0].mode}:
        scores = [fractional_ranks(score) for score in scores]
    return np.argsort(-np.abs(scores[0] - scores[1]), kind="stable")[: max(limit, 0)]


def side_by_side(a: Judgements, b: Judgements) -> Judgements:
    """The pairs of a, then those of b as 2Q queries: weights choose whose prediction counts.

    Scores and Spearman's targets become ranks among the pairs of their own model.
    """

    def both(name: str) -> Any:
        parts = [getattr(a, name), getattr(b, name)]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    def ranks(name: str) -> FloatArray:
        return np.concatenate([fractional_ranks(getattr(side, name)) for side in (a, b)])

    fields = "truth label_probability predicted correct ranking_truth graded unjudged"
    return replace(
        a,
        **{name: both(name) for name in fields.split()},
        level_probabilities=both("level_probabilities") if a.levels == b.levels else None,
        ranking_score=ranks("ranking_score"),
        spearman_target=ranks("spearman_target"),
        query_index=np.concatenate([a.query_index, b.query_index + a.n_queries]),
        n_queries=2 * a.n_queries,
        query_weights=np.tile(a.weights, 2),
    )


def refusal(metric: Metric, a: Judgements, b: Judgements) -> str | None:
    """Why a metric is not defined for both models; None if it is."""
    same = metric.ranking or a.levels == b.levels
    return metric.refusal(a) or metric.refusal(b) or (None if same else OTHER_LEVELS.en)


def _swap_weights(a: Judgements, draws: int, seed: int) -> Iterator[FloatArray]:
    """Random weights that give each query's predictions of a or of b to the first model [r, 2Q]."""
    generator = np.random.default_rng(seed)
    for rows in chunk_sizes(draws, 2 * max(len(a), a.n_queries)):
        swapped = generator.integers(2, size=(rows, a.n_queries)).astype(np.float64)
        yield np.concatenate([1 - swapped, swapped], axis=1) * np.tile(a.weights, 2)


def _side_differences(estimators: Sequence[Estimator], weights: FloatArray) -> FloatArray:
    """The second model's value less the first one's under `weights`: [estimators, r]."""
    mirrored = np.roll(weights, weights.shape[1] // 2, axis=1)
    return resample(estimators, iter([mirrored])) - resample(estimators, iter([weights]))


def metric_estimate(judgements: Judgements, name: str) -> Estimate:
    """A metric over all pairs, judged on jackknife pseudo-values over queries; NaN where it is undefined."""
    n, metric = judgements.n_queries, METRICS[name]
    if metric.refusal(judgements) is not None:
        return from_leave_one_out(np.nan, np.full(n, np.nan), range(n))
    estimator, left = metric.estimator(judgements), list[FloatArray]()
    for rows in chunk_sizes(n, max(len(judgements), n)):
        weights = np.tile(judgements.weights, (rows, 1))
        weights[np.arange(rows), np.arange(rows) + sum(map(len, left))] = 0
        left.append(estimator(weights))
    value = float(estimator(judgements.weights[None])[0])
    correlation = name == "spearman"
    return from_leave_one_out(value, np.concatenate(left), range(n), correlation=correlation)
