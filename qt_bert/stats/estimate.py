"""One value with its uncertainty over queries: how it is made, computed with, and its interval.

The titles of a query are judged together, so the query is the unit that is resampled. Every
estimate holds one number for each query. Where the value is a mean over queries this is the query's
own mean; for any other statistic θ (a ratio of sums, Spearman's ρ) it is the query's jackknife
pseudo-value n·θ − (n−1)·θ₋ᵢ, where θ₋ᵢ is the statistic without that query. Both are then treated
alike: as a sample whose mean is the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, mean_known, mid_ranks, ratio
from qt_bert.text import Text, query_key

Interval: TypeAlias = tuple[float, float]
Kind: TypeAlias = Literal["mean", "statistic", "correlation"]

CONFIDENCE = 0.95
NORMAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Standard errors that a two-sided 95 % interval of a normal estimate reaches."""
RESAMPLES = 2_000
LEAST_ERROR = 0.2
"""Least standard error of a resample, as a share of the sample's: see `studentised_interval`."""
ROOM = 5.0
ROUNDING = 1e-12
CELLS_AT_ONCE = 1_000_000
MOST_UNDEFINED = 0.05
LEAST_QUERIES = 20
"""Queries of a class, a slice or a gate's file."""
NO_INTERVAL = {
    "resamples": Text("无区间：重抽样 0 次", "no interval: 0 resamples"),
    "query": Text(
        "无区间：只有一个查询，无法重抽样", "no interval: a single query cannot be resampled"
    ),
    "undefined": Text(
        "无区间：指标在超过 5 % 的重抽样里没有定义",
        "no interval: the metric is undefined in more than 5 % of the resamples",
    ),
}


def group_queries(queries: Sequence[Hashable]) -> tuple[tuple[Hashable, ...], IntArray]:
    """The distinct queries by `query_key`, in order of first appearance, and the number of each item's."""
    places: dict[Hashable, int] = {}
    index = [places.setdefault(query_key(query), len(places)) for query in queries]
    return tuple(places), np.array(index, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value, and the contribution of each query to it.

    `values` [queries] are means (kind `mean`) or jackknife pseudo-values, aligned to `queries`. The
    value is NaN where it is undefined. Sums, differences and multiples of estimates over the same
    queries keep the pairing; a quotient is judged through its leave-one-out values. A `correlation`
    is judged as Fisher's z, since its error depends on its size; a difference of two is not. `reach`
    is the half-width of the 95 % interval that a draw of heads adds, joined to that of the queries in
    quadrature.

    >>> queries = ["cat", "cat", "dog"]
    >>> before, after = over_queries([0.0, 1.0, 1.0], queries), over_queries([1, 1, 1], queries)
    >>> before.value, (after - before).values.tolist(), (after / before).value
    (0.75, [0.5, 0.0], 1.3333333333333333)
    """

    value: float
    values: FloatArray
    queries: tuple[Hashable, ...]
    kind: Kind = "mean"
    reach: float = 0.0

    __array_ufunc__ = None  # a number of numpy to the left leaves the arithmetic to this class

    def __post_init__(self) -> None:
        if np.shape(self.values) != (len(self.queries),):
            raise ArgumentError(
                f"{np.shape(self.values)} values for {len(self.queries)} queries; one each"
            )

    @property
    def n_queries(self) -> int:
        """Queries that have a value."""
        return len(self.queries)

    @property
    def centred(self) -> FloatArray:
        """`values` moved so that their mean is the value: pseudo-values carry the jackknife's bias."""
        if not self.n_queries:
            return self.values
        return self.values + (self.value - self.values.mean())

    @property
    def leave_one_out(self) -> FloatArray:
        """The value without each query [queries]."""
        n = self.n_queries
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((n * self.value - self.values) / np.float64(n - 1))

    def interval(self, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
        """The two-sided 95 % interval: that over queries, widened by `reach`."""
        return self.widened(self.query_interval(resamples, seed))

    def widened(self, interval: Interval | None) -> Interval | None:
        """The interval over queries, joined with `reach` in quadrature."""
        if interval is None or not self.reach:
            return interval
        low, high = joined(self.value, *interval, self.reach)
        return float(low), float(high)

    def query_interval(self, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
        """The two-sided 95 % studentised bootstrap interval over queries.

        None where the value is undefined or there are fewer than two queries; of zero width where
        all queries agree. See `studentised_interval`.
        """
        values, _ = self.judged()
        if self.n_queries < 2 or not np.isfinite(values).all():
            return None
        ends = np.concatenate(studentised_interval(values[:, None], resamples, seed))
        low, high = np.tanh(ends) if self.kind == "correlation" else ends
        return float(low), float(high)

    def judged(self, margin: float = 0.0) -> tuple[FloatArray, float]:
        """`centred` and a margin on the scale that tests use: Fisher's z for a correlation.

        A correlation of ±1, also of one left-out query's, has no z: infinite or NaN.
        """
        if self.kind != "correlation":
            return self.centred, margin
        with np.errstate(invalid="ignore", divide="ignore"):
            z, edge = float(np.arctanh(self.value)), float(np.arctanh(margin))
            left = np.arctanh(self.leave_one_out)
        return from_leave_one_out(z, left, self.queries).centred, edge

    def __add__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self._moved(self.value + other, self.values + other)
        _check_paired(self, other)
        kind: Kind = "mean" if other.kind == "mean" else "statistic"
        moved = self._moved(self.value + other.value, self.values + other.values, kind)
        return replace(moved, reach=math.hypot(self.reach, other.reach))

    __radd__ = __add__

    def __mul__(self, factor: float) -> Estimate:
        if isinstance(factor, Estimate):
            return NotImplemented
        moved = self._moved(self.value * factor, self.values * factor)
        return replace(moved, reach=self.reach * abs(factor))

    __rmul__ = __mul__

    def _moved(self, value: float, values: FloatArray, kind: Kind = "mean") -> Estimate:
        kind = kind if self.kind == "mean" else "statistic"
        return Estimate(value, values, self.queries, kind, self.reach)

    def __neg__(self) -> Estimate:
        return self * -1.0

    def __sub__(self, other: Estimate | float) -> Estimate:
        return self + -other

    def __rsub__(self, other: float) -> Estimate:
        return -self + other

    def __truediv__(self, other: Estimate | float) -> Estimate:
        """A quotient; of two mean estimates the ratio of their sums. Undefined (NaN) over zero."""
        if not isinstance(other, Estimate):
            if other == 0:
                raise ArgumentError("an estimate cannot be divided by the number 0")
            return self * (1 / other)
        _check_paired(self, other)
        quotient = from_leave_one_out(
            float(ratio(np.array(self.value), np.array(other.value))),
            ratio(self.leave_one_out, other.leave_one_out),
            self.queries,
        )
        return replace(quotient, reach=self.reach / abs(other.value)) if self.reach else quotient


def over_queries(values: npt.ArrayLike, queries: Sequence[Hashable]) -> Estimate:
    """The mean within each query, then over the queries that have a value.

    `values` [items] are NaN where unknown; `queries` names the query of each item. Raises
    ArgumentError for lengths that differ or an infinite value.
    """
    items = _checked(values, queries, "values")
    keys, index = group_queries(queries)
    valid = ~np.isnan(items)
    counts = np.bincount(index[valid], minlength=len(keys))
    sums = np.bincount(index[valid], weights=items[valid], minlength=len(keys))
    kept = counts > 0
    means = sums[kept] / counts[kept]
    value = float(means.mean()) if means.size else float("nan")
    return Estimate(value, means, _those(keys, kept))


def classes_judged(
    classes: Sequence[Hashable], queries: Sequence[Hashable]
) -> tuple[list[Hashable], list[Hashable]]:
    """The classes of items with at least LEAST_QUERIES queries, and the others, in order of appearance."""
    of_class: dict[Hashable, set[Hashable]] = {}
    for name, query in zip(classes, queries, strict=True):
        of_class.setdefault(name, set()).add(query_key(query))
    kept = [name for name, members in of_class.items() if len(members) >= LEAST_QUERIES]
    return kept, [name for name in of_class if name not in kept]


def over_classes(
    values: npt.ArrayLike, classes: Sequence[Hashable], queries: Sequence[Hashable]
) -> Estimate:
    """The mean over queries within each class, then over the classes of `classes_judged`, or all if none.

    A mean within a query and class comes first. Judged on jackknife pseudo-values over queries, as a
    query may have items of several classes. Raises ArgumentError as `over_queries`.
    """
    items = _checked(values, queries, "values")
    kept, others = classes_judged(classes, queries)
    place = {name: number for number, name in enumerate(kept or others)}
    column = np.array([place.get(name, -1) for name in classes], dtype=np.int64)
    keys, index = group_queries(queries)
    valid, size = ~np.isnan(items) & (column >= 0), (len(keys), len(place))
    cell = index[valid] * len(place) + column[valid]
    counts = np.bincount(cell, minlength=math.prod(size)).reshape(size)
    sums = np.bincount(cell, weights=items[valid], minlength=math.prod(size)).reshape(size)
    rows: BoolArray = np.asarray((counts > 0).any(axis=1))
    if not rows.any():
        return Estimate(math.nan, np.empty(0), (), "statistic")
    there = (counts > 0)[rows].astype(np.float64)
    means = np.where(there > 0, sums[rows] / np.maximum(counts[rows], 1), 0.0)
    total, n = means.sum(axis=0), there.sum(axis=0)
    return from_leave_one_out(
        float(mean_known(ratio(total, n))),
        mean_known(ratio(total - means, n - there)),
        _those(keys, rows),
    )


def mean_of(estimates: Sequence[Estimate], *, draws: int = 0) -> Estimate:
    """The mean of estimates over the same queries.

    Where they are those of `draws` random draws, in turn, equally many each, `reach` counts the draw:
    the t-interval of the draws' means.
    """
    mean = (1 / len(estimates)) * sum(estimates[1:], start=estimates[0])
    reach = draws_reach([estimate.value for estimate in estimates], draws)
    return replace(mean, reach=math.hypot(mean.reach, reach))


def t_quantile(freedom: float) -> float:
    """How many standard errors a two-sided 95 % interval reaches, with these degrees of freedom."""
    from scipy.special import stdtrit  # a quarter of a second

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def draws_reach(values: npt.ArrayLike, draws: int) -> float:
    """Half-width of the t-interval of a mean over `draws` draws of equally many `values`; 0 under two."""
    if draws < 2:
        return 0.0
    means = np.asarray(values, dtype=np.float64).reshape(draws, -1).mean(axis=1)
    error = float(np.std(means, ddof=1)) / math.sqrt(draws)
    return t_quantile(draws - 1) * error


def pooled(sums: npt.ArrayLike, counts: npt.ArrayLike, queries: Sequence[Hashable]) -> Estimate:
    """Σ sums / Σ counts over all items, judged on jackknife pseudo-values over queries.

    `sums` and `counts` [items], counts at least 0; items with a NaN and queries
    without counts are left out. Raises ArgumentError for lengths that differ, infinite numbers or
    a negative count.
    """
    above, below = _checked(sums, queries, "sums"), _checked(counts, queries, "counts")
    if (below < 0).any():
        raise ArgumentError(f"a count is {below[below < 0][0]}; it must be 0 or more")
    keys, index = group_queries(queries)
    valid = ~(np.isnan(above) | np.isnan(below))
    by_query = np.bincount(index[valid], weights=above[valid], minlength=len(keys))
    counted = np.bincount(index[valid], weights=below[valid], minlength=len(keys))
    kept = counted > 0
    by_query, counted = by_query[kept], counted[kept]
    total, n = by_query.sum(), counted.sum()
    return from_leave_one_out(
        float(ratio(total, n)), ratio(total - by_query, n - counted), _those(keys, kept)
    )


def jackknife(
    statistic: Callable[[IntArray], float],
    queries: Sequence[Hashable],
    *,
    correlation: bool = False,
) -> Estimate:
    """Any statistic of items, judged on jackknife pseudo-values: it is called once a query.

    `statistic` maps the indices of items [≤ items], rising, to a number, NaN where it is undefined.
    `queries` names the query of each item. `correlation`: the statistic is a correlation coefficient,
    such as Spearman's ρ.
    """
    keys, index = group_queries(queries)
    if not keys:
        return Estimate(float("nan"), np.empty(0), (), "statistic")
    value = float(statistic(np.arange(len(index))))
    left = [float(statistic(np.flatnonzero(index != query))) for query in range(len(keys))]
    return from_leave_one_out(value, left, keys, correlation=correlation)


def spearman(first: FloatArray, second: FloatArray) -> float:
    """ρ of two series [items], ties at their mean rank; NaN where either does not vary, or is empty."""
    if not len(first):
        return math.nan
    first_ranks, second_ranks = mid_ranks(first), mid_ranks(second)
    if np.ptp(first_ranks) == 0 or np.ptp(second_ranks) == 0:
        return math.nan
    return float(np.corrcoef(first_ranks, second_ranks)[0, 1])


def rho(scores: FloatArray, grades: FloatArray, queries: Sequence[Hashable]) -> Estimate:
    """ρ of the scores and the mean grades of all pairs [pairs], judged as Fisher's z over queries."""
    return jackknife(lambda rows: spearman(scores[rows], grades[rows]), queries, correlation=True)


def change_of_rho(
    ablated: Sequence[FloatArray],
    clean: FloatArray,
    grades: FloatArray,
    queries: Sequence[Hashable],
    *,
    draws: int = 0,
) -> Estimate:
    """ρ under some variants, mean over them, less the clean model's; all [pairs].

    A change that should be small is judged on the jackknife pseudo-values of the difference. `draws`
    as for `mean_of`.
    """

    def change(rows: IntArray) -> float:
        left = [spearman(scores[rows], grades[rows]) for scores in ablated]
        return float(np.mean(left)) - spearman(clean[rows], grades[rows])

    reach = draws_reach([spearman(scores, grades) for scores in ablated], draws) if draws else 0.0
    return replace(jackknife(change, queries), reach=reach)


def from_leave_one_out(
    value: float,
    left: npt.ArrayLike,
    queries: Sequence[Hashable],
    *,
    correlation: bool = False,
) -> Estimate:
    """An estimate from the statistic's value and its values without each query `left` [queries]."""
    without = np.asarray(left, dtype=np.float64)
    n = len(queries)
    with np.errstate(invalid="ignore"):
        values = n * np.float64(value) - (n - 1) * without
    kind: Kind = "correlation" if correlation else "statistic"
    return Estimate(float(value), values, tuple(queries), kind)


def paired(first: Estimate, second: Estimate) -> tuple[Estimate, Estimate]:
    """Two means over queries, each recomputed over the queries that have a value in both.

    Raises ArgumentError for estimates that are no means: pseudo-values cannot be recomputed on fewer
    queries.
    """
    if first.kind != "mean" or second.kind != "mean":
        raise ArgumentError(
            "only means over queries can be recomputed over fewer queries; make ratios and other "
            "statistics from the same items"
        )
    common = set(first.queries) & set(second.queries)
    ordered = [query for query in first.queries if query in common]
    return _restricted(first, ordered), _restricted(second, ordered)


def studentised_interval(
    values: FloatArray, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Ends of the 95 % bootstrap-t interval of each column's mean: `values` [queries, k] → [k], [k].

    Queries are drawn with replacement, the same for all columns, and each resample gives
    t* = (mean* − mean) / se*. The interval is mean − high·se to mean − low·se, where `low` and
    `high` are the 2.5 % and 97.5 % quantiles of t*, or ∓ the 95 % quantile of |t*| where that
    reaches farther: the equal-tailed and the symmetric bootstrap-t (P. Hall, *The Bootstrap and
    Edgeworth Expansion*, 1992, 3.5–3.6), the wider of them at each end. On the accuracy of twenty
    queries, a value that takes few steps, the equal-tailed one alone is wrong on one side in 6 % of
    samples, this in 1 %; where values lie evenly about their mean the two are the same.

    A resample whose queries (nearly) agree has no standard error of its own. se* is therefore at
    least LEAST_ERROR·se. Data of which most are zero need that: where one to three queries show an
    effect, more than 2.5 % of the resamples catch none of it, and the far end then lies at little over six times
    the mean; one query's exact Poisson limit is 5.6 times it.

    Skewed values (skewness 2 over queries) fall outside in up to 4.2 % of samples of 40 on one side, more than
    the 3.2 % that a verdict may be wrong in: the ends are moved out by ROOM / n, by simulation
    (`tests/stats/test_error_rates.py`).
    """
    n, mean = len(values), values.mean(axis=0)
    deviations = values - mean
    error = _standard_errors(values)
    t: list[FloatArray] = []
    for rows in query_draws(n, resamples, seed):
        moved = rows @ deviations / n
        spread = np.maximum(rows @ deviations**2 / n - moved**2, 0)
        floored = np.maximum(np.sqrt(spread / (n - 1)), LEAST_ERROR * error)
        t.append(np.divide(moved, floored, out=np.zeros_like(moved), where=floored > 0))
    tail = (1 - CONFIDENCE) / 2
    drawn = np.concatenate(t)
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    symmetric = np.quantile(np.abs(drawn), CONFIDENCE, axis=0)
    error = (1 + ROOM / n) * error
    return mean - np.maximum(high, symmetric) * error, mean + np.maximum(-low, symmetric) * error


def joined(
    value: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, reach: float
) -> tuple[FloatArray, FloatArray]:
    """The ends of intervals about `value`, each joined with `reach` in quadrature."""
    down, up = np.maximum(np.subtract(value, low), 0), np.maximum(np.subtract(high, value), 0)
    return np.subtract(value, np.hypot(down, reach)), np.add(value, np.hypot(up, reach))


def simultaneous_bound(values: FloatArray, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """The 95 % upper bound of the largest of k means over queries, `values` [queries, k].

    The quantile over resamples of the largest standardised deviation holds for all means at once
    (J. P. Romano and M. Wolf, "Exact and approximate stepdown methods", JASA 2005). NaN where all agree.
    """
    error = _standard_errors(values)
    varied = error > 0
    if not varied.any():
        return math.nan
    mean = values.mean(axis=0)
    deviations = (values - mean)[:, varied] / error[varied]
    largest = [
        (-(rows @ deviations) / len(values)).max(axis=1)
        for rows in query_draws(len(values), resamples, seed, width=values.shape[1])
    ]
    reach = float(np.quantile(np.concatenate(largest), CONFIDENCE))
    return float((mean + reach * error)[varied].max())


def query_draws(
    n_queries: int, resamples: int, seed: int, *, width: int = 0
) -> Iterator[FloatArray]:
    """How often each query is drawn in each resample, in chunks [r, queries].

    `width` is the length of the caller's row, where longer: it bounds the memory of a chunk and
    changes no draw. Raises ArgumentError for fewer than 1 resample.
    """
    if resamples < 1:
        raise ArgumentError(f"resamples is {resamples}; it must be 1 or more")
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(resamples, max(width, n_queries)):
        drawn = rng.integers(n_queries, size=(rows, n_queries))
        drawn += np.arange(rows)[:, None] * n_queries
        counts = np.bincount(drawn.ravel(), minlength=rows * n_queries)
        yield counts.reshape(rows, n_queries).astype(np.float64)


def chunk_sizes(total: int, width: int) -> Iterator[int]:
    """Split `total` rows of `width` numbers into chunks of about CELLS_AT_ONCE numbers."""
    size = max(1, CELLS_AT_ONCE // max(width, 1))
    for start in range(0, total, size):
        yield min(size, total - start)


def bootstrap_weights(
    n_queries: int, resamples: int, seed: int, *, width: int
) -> Iterator[FloatArray]:
    """How often each query is drawn in each resample, in chunks [r, Q].

    `width` is the number of pairs, which bounds the memory of a chunk.
    """
    if resamples < 0:
        raise ArgumentError(f"resamples is {resamples}; it must be 0 (no intervals) or more")
    if resamples:
        yield from query_draws(n_queries, resamples, seed, width=width)


def resample(
    estimators: Sequence[Callable[[FloatArray], FloatArray]], weights: Iterator[FloatArray]
) -> FloatArray:
    """Every metric under every row of `weights`: [metrics, R]."""
    values = [[estimate(rows) for estimate in estimators] for rows in weights]
    chunks = [np.reshape(chunk, (len(estimators), -1)) for chunk in values if chunk]
    return np.concatenate([np.empty((len(estimators), 0)), *chunks], axis=1)


def percentile_interval(samples: FloatArray) -> tuple[float, float] | None:
    """The central 95 % of resampled values [R].

    Undefined resamples (NaN) are dropped; None where there are none at all, or more than 5 % of
    them are undefined.
    """
    undefined = np.isnan(samples)
    if samples.size == 0 or undefined.mean() > MOST_UNDEFINED:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples[~undefined], [tail, 1 - tail])
    return float(low), float(high)


def interval_or_reason(
    samples: FloatArray, n_queries: int
) -> tuple[float | None, float | None, str | None]:
    """Both ends of the interval and None, or two None and the reason why there is no interval."""
    if samples.size == 0:
        return None, None, NO_INTERVAL["resamples"].en
    if n_queries == 1:
        return None, None, NO_INTERVAL["query"].en
    if interval := percentile_interval(samples):
        return *interval, None
    return None, None, NO_INTERVAL["undefined"].en


def _standard_errors(values: FloatArray) -> FloatArray:
    """Standard error of each column's mean; exactly 0 where the rows differ by rounding alone."""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.nan)
    spread = values.std(axis=0, ddof=1)
    return np.where(spread > ROUNDING * np.abs(values).max(axis=0), spread, 0.0) / np.sqrt(n)


def _check_paired(first: Estimate, second: Estimate) -> None:
    if first.queries == second.queries:
        return
    only = len(set(first.queries) ^ set(second.queries))
    raise ArgumentError(
        f"the two estimates rest on different queries ({first.n_queries} and {second.n_queries}, "
        f"{only} of them in one alone); compute both from the same items, or use paired(a, b)"
        if only
        else "the two estimates hold the same queries in another order; use paired(a, b)"
    )


def _restricted(estimate: Estimate, queries: list[Hashable]) -> Estimate:
    place = {query: at for at, query in enumerate(estimate.queries)}
    values = estimate.values[[place[query] for query in queries]]
    value = float(values.mean()) if queries else float("nan")
    return Estimate(value, values, tuple(queries), reach=estimate.reach)


def _checked(values: npt.ArrayLike, queries: Sequence[Hashable], name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (len(queries),):
        raise ArgumentError(
            f"{name} have shape {array.shape}, but {len(queries)} items have a query"
        )
    if np.isinf(array).any():
        raise ArgumentError(f"{name}: item {int(np.argmax(np.isinf(array)))} is infinite")
    return array


def _those(keys: tuple[Hashable, ...], kept: npt.NDArray[np.bool_]) -> tuple[Hashable, ...]:
    return tuple(key for key, keep in zip(keys, kept, strict=True) if keep)
