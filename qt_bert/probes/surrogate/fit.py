"""Least squares on some pairs, and how well the fit agrees with the model on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.probes.naming import Estimate
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.stats.intervals import bootstrap_weights
from qt_bert.stats.judgements import index_queries

NOTHING = 1e-12
"""A prediction whose variance is a smaller share of the target's does not vary but for rounding."""


def predictions(features: FloatArray, target: FloatArray, others: FloatArray) -> FloatArray:
    """What least squares with an intercept, fitted on `features` [n, k], says of `others` [m, k]: [m].

    Features that depend on each other share their coefficients (the least ones).
    """
    solved = np.linalg.lstsq(_with_ones(features), target, rcond=None)[0]
    return np.asarray(_with_ones(others) @ solved)


def _with_ones(features: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(features)), features])


@dataclass(frozen=True, eq=False)
class Agreement:
    """How a prediction agrees with the target: Pearson's `r`, and `r2` = 1 − Σ(y − ŷ)² / Σ(y − ȳ)²."""

    r: Estimate
    r2: Estimate


def agreements(
    predicted: FloatArray, target: FloatArray, queries: Sequence[str], resamples: int, seed: int
) -> list[Agreement]:
    """The agreement of each row of `predicted` [S, n] with `target` [n], resampled by query.

    Resamples are the same for all. A prediction that does not vary has r = 0, for it tells nothing;
    where the target does not vary both figures are NaN.
    """
    index, count = index_queries(list(queries))
    shift = target.mean()
    x, y = predicted - shift, target - shift
    columns = np.concatenate([np.stack([np.ones_like(y), y, y * y]), x, x * y, x * x])
    table = np.zeros((count, len(columns)))
    np.add.at(table, index, columns.T)
    values = [one[0] for one in _of_sums(table.sum(0)[None], len(x))]
    drawn = bootstrap_weights(count, resamples, seed, width=len(columns))
    chunks = [_of_sums(weights @ table, len(x)) for weights in drawn]
    r, r2 = (
        np.concatenate([np.empty((0, len(x))), *(chunk[which] for chunk in chunks)])
        for which in (0, 1)
    )
    return [
        Agreement(
            Estimate(float(values[0][one]), r[:, one]), Estimate(float(values[1][one]), r2[:, one])
        )
        for one in range(len(x))
    ]


def _of_sums(sums: FloatArray, predictions: int) -> tuple[FloatArray, FloatArray]:
    """r and R² [R, S] from Σ 1, y, yy, and of each prediction x, xy, xx [R, 3 + 3 S]."""
    n, y, yy = (sums[:, column, None] for column in range(3))
    x, xy, xx = np.split(sums[:, 3:], [predictions, 2 * predictions], axis=1)
    covariance, x_varies, y_varies = xy - x * y / n, xx - x * x / n, yy - y * y / n
    y_varies = np.where(y_varies > NOTHING * yy, y_varies, 0)
    tells = x_varies > NOTHING * y_varies
    r = ratio(np.where(tells, covariance, 0), np.sqrt(np.where(tells, x_varies, 1) * y_varies))
    r2 = 1 - ratio(yy - 2 * xy + xx, np.broadcast_to(y_varies, xx.shape))
    return r, r2


def correlations(features: FloatArray, target: FloatArray) -> FloatArray:
    """Pearson's r of each head's feature [n, layers, heads] with `target` [n]: [layers, heads].

    NaN where either does not vary.
    """
    centred, y = features - features.mean(0), target - target.mean()
    varies, all_of_it = (centred**2).sum(0), (features**2).sum(0)
    varies = np.where(varies > NOTHING * all_of_it, varies, 0)
    return ratio(np.tensordot(y, centred, 1), np.sqrt(varies * (y @ y)))
