"""Verdicts on claims: *reproduced*, *not reproduced*, *inconclusive*, *not testable*.

A difference is judged by its interval and a sign-flip p over queries, both against the margin; a
contest of a target set of heads against random sets by its rank among them and the interval of
target − mean set. `margin` is a value on the estimate's own scale (−0.02 for "loses no more than
.02"), never a distance, and it is the same for both outcomes. A share `part / whole` is judged in
linear form, part − margin × whole against 0, and shown as the share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from qt_bert.stats.estimate import (
    CONFIDENCE,
    NORMAL,
    RESAMPLES,
    Estimate,
    Interval,
    joined,
    mean_of,
    query_draws,
    studentised_interval,
)
from qt_bert.stats.tests import q_values, rank_p, sign_flip_p

Verdict: TypeAlias = Literal["reproduced", "not reproduced", "inconclusive", "not testable"]
Side: TypeAlias = Literal["above", "below"]

ALPHA = 0.05
CLAIM_QUERIES = 40
"""The least number of queries of a claim."""
LEAST_SETS = 19
END_AT = 10
"""A contest may end once this many sets do as much as the target."""
LEAST_REACHED = 0.01
"""Quantile over resampled queries of the sets that do as much. 1 % and not 2.5 %, since intervals
from quantiles are narrow on twenty queries and a contest can fail in two ways."""
POWER_FACTOR = 2.04
"""((z.975 + z.80) / z.975)²: queries for 80 % power, against those for an interval at the margin."""
EIGHTY = NormalDist().inv_cdf(0.9) / NORMAL
"""The half-width of an 80 % interval as a share of that of the 95 % one."""
MOST_QUERIES = 10_000
SLACK = 1e-12


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A judged statement. Fields are those of a probe's JSON, but for its source.

    `reason` is the rule behind the verdict in one word: `decided`; for *inconclusive* the condition
    that failed, `interval` (it holds the margin), `p`, or `rank` (of a contest); for *not testable*
    `undefined`, `few_queries`, `zero_width`, `few_sets`, or the caller's own, such as
    `precondition:gap`. `needs_queries`: the fewest and the most that would decide an inconclusive
    claim, MOST_QUERIES + 1 for "more than 10,000", None where more queries would not help.
    """

    id: str
    verdict: Verdict
    reason: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    side: Side
    margin: float
    n_queries: int
    needs_queries: tuple[int, int] | None
    unit: str


def judge_difference(
    estimate: Estimate,
    *,
    id: str,
    side: Side,
    margin: float,
    unit: str,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Claim:
    """Judge that a value lies `above` or `below` the margin.

    *Reproduced*: the 95 % interval lies strictly beyond the margin on that side and the two-sided
    sign-flip p against the margin is under .05. *Not reproduced*: the same on the other side.
    """
    alone = estimate.query_interval(resamples, seed)
    interval, p = estimate.widened(alone), None
    verdict: Verdict = "not testable"
    reason = _untestable(estimate, alone)
    if interval is not None and alone is not None and not reason:
        p = _flip_p(estimate, margin, alone, seed)
        where = place(interval, side, margin)
        verdict, reason = "inconclusive", "interval" if where == "across" else "p"
        if where != "across" and p < ALPHA:
            verdict = "reproduced" if where == "beyond" else "not reproduced"
            reason = "decided"
    needs = _needs(estimate, interval, margin) if verdict == "inconclusive" else None
    shown = estimate.value, interval
    return _claim(shown, p, verdict, reason, needs, estimate.n_queries, id, side, margin, unit)


def judge_contest(
    target: Estimate,
    sets: Sequence[Estimate],
    *,
    id: str,
    side: Side,
    margin: float,
    unit: str,
    whole: Estimate | None = None,
    enumerated: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Claim:
    """Judge that a target set beats random sets, and their mean by the margin.

    `sets` are estimates over the target's queries, in the order drawn, or all there are
    (`enumerated`); the claim's value is target − mean set, or its share of a `whole` above 0.
    *Reproduced*: the target's rank p is at
    most .05 and the interval lies beyond the margin. *Not reproduced*: the interval lies on the
    margin's other side (and the sign-flip p against the margin is under .05, as for a difference),
    or the interval of the share of sets that do as much lies above .05.

    A contest may end once ten sets do as much: then only the sets up to the tenth such are counted,
    however many follow, and p = 10 / (their number) (J. Besag and P. Clifford, "Sequential
    Monte Carlo p-values", 1991). Under 19 sets it is not testable, unless it ended so.

    Both intervals count the draw of the sets as well as that of the queries. That of the difference
    adds the error of the sets' mean in quadrature, for a contest that ended early knows a dozen
    sets. The share's low end is `share_interval` of the hits that 99 % of the resamples of queries
    reach: noise alone lets sets overtake a target that truly leads them. Without it a target that
    is better than 95 % of the sets is called *not reproduced* in 59 % of samples of 20 queries and
    in 22 % of those of 160, with it in 2 % and less.
    """
    if not sets:
        return not_testable(id, "few_sets", side=side, margin=margin, unit=unit, estimate=target)
    difference = target - mean_of(sets, draws=0 if enumerated else len(sets))
    judged, edge = linear(difference, whole, margin)
    hits = np.flatnonzero([_does_as_much(drawn.value, target.value, side) for drawn in sets])
    ended = not enumerated and len(hits) >= END_AT
    counted = int(hits[END_AT - 1]) + 1 if ended else len(sets)
    p: float | None = END_AT / counted if ended else rank_p(len(hits), len(sets))
    alone = judged.query_interval(resamples, seed)
    interval = judged.widened(alone)
    verdict: Verdict = "not testable"
    reason = _untestable(judged, alone)
    if not reason and len(sets) < LEAST_SETS and not ended:
        reason = "few_sets"
    if interval is None or alone is None or reason:
        p = None
    else:
        where = place(interval, side, edge)
        if where == "beyond" and p is not None and p <= ALPHA:
            verdict, reason = "reproduced", "decided"
        elif (where == "short" and _flip_p(judged, edge, alone, seed) < ALPHA) or _is_common(
            target, sets[:counted], side, resamples, seed
        ):
            verdict, reason = "not reproduced", "decided"
        else:
            verdict = "inconclusive"
            reason = {"beyond": "rank", "across": "interval", "short": "p"}[where]
    open_ = verdict == "inconclusive" and reason != "rank"
    needs = _needs(judged, interval, edge) if open_ else None
    shown = _shown(difference, whole, interval, margin, resamples, seed)
    return _claim(shown, p, verdict, reason, needs, judged.n_queries, id, side, margin, unit)


def not_testable(
    id: str,
    reason: str,
    *,
    side: Side,
    margin: float,
    unit: str,
    estimate: Estimate | None = None,
) -> Claim:
    """A claim that cannot be judged, for the caller's `reason`, such as `precondition:gap`.

    Value and interval are those of `estimate`, if any.
    """
    estimate = estimate if estimate is not None else Estimate(float("nan"), np.empty(0), ())
    shown = estimate.value, estimate.interval()
    n = estimate.n_queries
    return _claim(shown, None, "not testable", reason, None, n, id, side, margin, unit)


AnyClaim = TypeVar("AnyClaim", bound=Claim)


def with_q(claims: Sequence[AnyClaim]) -> list[AnyClaim]:
    """The same claims with Benjamini–Hochberg q over those that have a p."""
    q = q_values([claim.p for claim in claims])
    return [replace(claim, q=value) for claim, value in zip(claims, q, strict=True)]


def queries_needed(n: int, half_width: float, distance: float) -> int:
    """Queries that would decide a claim with 80 % power: n × 2.04 × (half-width / distance)².

    `half_width` is the interval's facing the margin, `distance` the value's to the margin, both at
    least 0. Rounded up; MOST_QUERIES + 1 stands for more than that.
    """
    if distance == 0:
        return MOST_QUERIES + 1
    ratio = half_width / distance
    needed = POWER_FACTOR * n * ratio * ratio
    return math.ceil(needed) if needed <= MOST_QUERIES else MOST_QUERIES + 1


def share_interval(hits: int, sets: int) -> Interval:
    """The exact 95 % interval of the share of sets that do as much (Clopper and Pearson, 1934).

    Its lower end also holds where a contest ended with the last of `hits`: the chance that at most
    `sets` are needed for so many is that of at least so many among `sets`. The upper end is then
    conservative.
    """
    from scipy.special import betaincinv  # a quarter of a second

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, sets - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, sets - hits, 1 - tail)) if hits < sets else 1.0
    return low, high


def place(interval: Interval, side: Side, margin: float) -> Literal["beyond", "short", "across"]:
    """Whether an interval lies strictly beyond the margin on the claimed side, short of it, across."""
    low, high = interval if side == "above" else (-interval[1], -interval[0])
    edge = margin if side == "above" else -margin
    return "beyond" if low > edge else "short" if high < edge else "across"


def linear(estimate: Estimate, whole: Estimate | None, margin: float) -> tuple[Estimate, float]:
    """What is judged, and the value that it is judged against."""
    return (estimate, margin) if whole is None else (estimate - margin * whole, 0.0)


def _untestable(estimate: Estimate, interval: Interval | None) -> str:
    """Why an estimate with this interval over queries cannot be judged, empty where it can."""
    if estimate.n_queries < CLAIM_QUERIES:
        return "few_queries"
    if interval is None:
        return "undefined"
    return "zero_width" if interval[0] == interval[1] else ""


def _does_as_much(value: float, target: float, side: Side) -> bool:
    slack = SLACK * max(abs(value), abs(target))
    return value >= target - slack if side == "above" else value <= target + slack


def _is_common(
    target: Estimate, sets: Sequence[Estimate], side: Side, resamples: int, seed: int
) -> bool:
    """Whether the interval of the share of sets doing as much as the target lies above ALPHA."""
    ahead = np.stack([drawn.centred - target.centred for drawn in sets], axis=1)
    ahead = ahead if side == "above" else -ahead
    slack = SLACK * np.abs(ahead).sum(axis=0)
    draws = query_draws(target.n_queries, resamples, seed)
    hits = np.concatenate([(rows @ ahead >= -slack).sum(axis=1) for rows in draws])
    reached = int(np.quantile(hits, LEAST_REACHED, method="lower"))
    return share_interval(reached, len(sets))[0] > ALPHA


def _flip_p(estimate: Estimate, margin: float, interval: Interval, seed: int) -> float:
    """The sign-flip p; where heads were drawn, of a distance as much smaller as `reach` makes the interval
    over queries wider."""
    values, edge = estimate.judged(margin)
    if estimate.reach:
        facing = (interval[1] - interval[0]) / 2
        kept = facing / math.hypot(facing, estimate.reach)
        values = values + (kept - 1) * (estimate.value - margin)
    return float(sign_flip_p(values, edge, seed=seed))


def _needs(estimate: Estimate, interval: Interval | None, edge: float) -> tuple[int, int] | None:
    """`queries_needed` at both ends of the 80 % interval of the distance; None where there are more."""
    if interval is None:
        return None
    down, up = estimate.value - interval[0], interval[1] - estimate.value
    facing, away = (down, up) if estimate.value > edge else (up, down)
    n, distance = estimate.n_queries, abs(estimate.value - edge)
    fewest, most = (
        queries_needed(n, facing, max(0.0, far))
        for far in (distance + EIGHTY * away, distance - EIGHTY * facing)
    )
    return (max(fewest, n + 1), most) if most > n else None


def _shown(
    part: Estimate,
    whole: Estimate | None,
    interval: Interval | None,
    margin: float,
    resamples: int,
    seed: int,
) -> tuple[float, Interval | None]:
    """The value and its interval; of a share all r for which the interval of part − r × whole holds 0.

    E. Fieller, "Some problems in interval estimation" (1954), here with the studentised bootstrap. A
    node at the margin lets the interval agree with the verdict.
    """
    if whole is None:
        return part.value, interval
    share = part / whole
    ends = share.interval(resamples, seed)
    if ends is None:
        return share.value, None
    reach = ends[1] - ends[0]
    r = np.unique([*np.linspace(ends[0] - reach, ends[1] + reach, 121), margin])
    middle = part.value - r * whole.value
    low, high = studentised_interval(
        part.centred[:, None] - whole.centred[:, None] * r, resamples, seed
    )
    low, high = joined(middle, low, high, part.reach)
    # Both fall in r: they cross 0 at the ends of the share's interval.
    return share.value, (
        float(np.interp(0.0, -np.maximum.accumulate(low[::-1])[::-1], r)),
        float(np.interp(0.0, -np.minimum.accumulate(high), r)),
    )


def _claim(
    shown: tuple[float, Interval | None],
    p: float | None,
    verdict: Verdict,
    reason: str,
    needs: tuple[int, int] | None,
    n: int,
    id: str,
    side: Side,
    margin: float,
    unit: str,
) -> Claim:
    value, interval = shown
    low, high = interval if interval is not None else (None, None)
    return Claim(
        id=id,
        verdict=verdict,
        reason=reason,
        value=value if math.isfinite(value) else None,
        ci_low=low,
        ci_high=high,
        p=p,
        q=None,
        side=side,
        margin=margin,
        n_queries=n,
        needs_queries=needs,
        unit=unit,
    )
