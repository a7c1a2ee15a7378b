"""Differences of trained students, over seeds and queries together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qt_bert.evaluation import METRICS, Judgements
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.results.arms import ArmDifference, Outcome

JUDGED = ("spearman", "qwk")
"""What arms are compared by: the order of the expected grades, and the grades themselves."""

BySeed = Mapping[int, Judgements]
"""Seed → what its student gave, all on the same pairs."""


def paired_differences(
    plan: BySeed, rival: BySeed, *, name: str, on: str, resamples: int = RESAMPLES, seed: int = 0
) -> list[ArmDifference]:
    """The plan's students against a rival's by each of `JUDGED`, where it is defined.

    A resample draws seeds, and apart from these queries, with replacement; both arms see the same
    draw, and the difference is the mean over the drawn seeds. Resampling both factors of a crossed
    design apart is the pigeonhole bootstrap (Owen 2007, Annals of Applied Statistics 1), which is
    rather too wide than too narrow where both have many members. Of few seeds a plain resample is
    too narrow, by (n − 1) / n in variance; `_over_seeds` makes up for that. What three or five seeds
    happen not to show remains unseen.
    """
    seeds = sorted(set(plan) & set(rival))
    found = []
    for metric in JUDGED:
        values = [_values(arm, seeds, metric, resamples, seed) for arm in (plan, rival)]
        if any(np.isnan(one[:, 0]).any() for one in values):
            continue
        ours, theirs = (float(one[:, 0].mean()) for one in values)
        samples = _over_seeds(values[0][:, 1:] - values[1][:, 1:], seed)
        low, high, _ = interval_or_reason(samples, plan[seeds[0]].n_queries)
        found.append(
            ArmDifference(
                rival=name,
                on=on,
                metric=metric,
                seeds=len(seeds),
                plan_value=ours,
                rival_value=theirs,
                difference=ours - theirs,
                ci_low=low,
                ci_high=high,
                outcome=outcome_of(low, high),
            )
        )
    return found


def outcome_of(low: float | None, high: float | None) -> Outcome:
    """What an interval of a difference says."""
    if low is None or high is None or low <= 0 <= high:
        return "undecided"
    return "better" if low > 0 else "worse"


def _values(arm: BySeed, seeds: list[int], metric: str, resamples: int, seed: int) -> FloatArray:
    """A metric of each seed's student, plain and under the same query weights [seeds, 1 + R]."""
    rows = []
    for one in (arm[number] for number in seeds):
        if METRICS[metric].refusal(one):
            rows.append(np.full(1 + resamples, np.nan))
            continue
        estimator = [METRICS[metric].estimator(one)]
        weights = bootstrap_weights(one.n_queries, resamples, seed, width=len(one))
        plain = resample(estimator, iter([np.ones((1, one.n_queries))]))
        rows.append(np.concatenate([plain, resample(estimator, weights)], axis=1)[0])
    return np.array(rows)


def _over_seeds(differences: FloatArray, seed: int) -> FloatArray:
    """Means over seeds drawn anew for each resample of the queries: [seeds, R] → [R].

    Their distance from the mean of all seeds is stretched by √(n / (n − 1)), so that they vary as
    much as the variance s² / n of a mean of n seeds says (the rescaling of Rao & Wu 1988, Journal
    of the American Statistical Association 83).
    """
    count, resamples = differences.shape
    if count == 1:
        return differences[0]
    drawn = np.random.default_rng([seed, 1]).integers(count, size=(count, resamples))
    plain, middle = np.take_along_axis(differences, drawn, axis=0).mean(0), differences.mean(0)
    return middle + (plain - middle) * np.sqrt(count / (count - 1))
