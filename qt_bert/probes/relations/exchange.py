"""Tests of linked against unlinked spans: their labels change places within strata."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio, sum_by

CELLS_AT_ONCE = 2_000_000
"""Labels that are drawn at once, over all draws."""
ROUNDING = 1e-6
"""Draws are summed in single precision; one this little below counts as equal.

Of few links many draws give the very labels that there are, and rounding must not decide over these.
"""


def label_weights(linked: BoolArray, stratum: IntArray) -> FloatArray:
    """Weights [n] whose sum with values is the mean excess of the linked ones.

    That is the mean over linked spans of their value less the mean of the unlinked ones of their
    stratum. Every stratum needs both kinds.
    """
    strata = int(stratum.max(initial=-1)) + 1
    ones = np.ones(len(stratum))
    of_linked = sum_by(stratum[linked], ones[linked], strata)
    of_others = sum_by(stratum[~linked], ones[~linked], strata)
    share = ratio(of_linked, of_others)[stratum]
    return np.asarray(np.where(linked, 1.0, -share) / max(1, int(linked.sum())))


def exchanged(
    values: npt.NDArray[np.floating],
    linked: BoolArray,
    stratum: IntArray,
    *,
    draws: int,
    seed: int,
) -> Iterator[FloatArray]:
    """The mean excess [some draws, heads] of `values` [n, heads] under labels exchanged in strata."""
    order = np.argsort(stratum, kind="stable")
    values, stratum = values[order].astype(np.float32), stratum[order]
    weights = label_weights(linked[order], stratum).astype(np.float32)
    rng = np.random.default_rng(seed)
    chunk = max(1, CELLS_AT_ONCE // max(1, len(order)))
    for start in range(0, draws, chunk):
        # The whole part keeps the strata apart, the fraction puts each in another order.
        keys = rng.random((min(chunk, draws - start), len(order)))
        keys += stratum
        yield np.asarray(weights[np.argsort(keys, axis=1)] @ values, dtype=np.float64)


def largest_of(
    values: npt.NDArray[np.floating],
    linked: BoolArray,
    stratum: IntArray,
    *,
    draws: int,
    seed: int,
) -> FloatArray:
    """The largest head's mean excess under each exchange [draws]."""
    chunks = exchanged(values, linked, stratum, draws=draws, seed=seed)
    return np.concatenate([np.empty(0), *(chunk.max(axis=1) for chunk in chunks)])


def p_against(observed: FloatArray, null: FloatArray) -> FloatArray:
    """(1 + draws at least as large, up to `ROUNDING`) / (1 + draws) of each of `observed`."""
    ranks = np.searchsorted(np.sort(null), observed - ROUNDING, side="left")
    return np.asarray((1 + len(null) - ranks) / (1 + len(null)))
