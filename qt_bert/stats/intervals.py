"""Confidence intervals by a bootstrap over queries: the titles of a query are drawn together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import CONFIDENCE, query_draws
from qt_bert.stats.metrics import Estimator

MOST_UNDEFINED = 0.05


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


def resample(estimators: Sequence[Estimator], weights: Iterator[FloatArray]) -> FloatArray:
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
        return None, None, "no interval: 0 resamples"
    if n_queries == 1:
        return None, None, "no interval: a single query cannot be resampled"
    if interval := percentile_interval(samples):
        return *interval, None
    return None, None, "no interval: the metric is undefined in more than 5 % of the resamples"
