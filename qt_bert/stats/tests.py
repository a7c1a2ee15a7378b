"""Tests of one value: by signs flipped over queries, by rank among random sets; and q-values of many.

Where a function takes `values` [queries] it also takes columns [queries, k], and gives k p-values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qt_bert.errors import ArgumentError
from qt_bert.stats.estimate import ROUNDING, FloatArray, chunk_sizes

FLIPS = 9_999
SLACK = 1e-10


def sign_flip_p(
    values: npt.ArrayLike,
    margin: float = 0.0,
    *,
    flips: int = FLIPS,
    seed: int = 0,
) -> FloatArray:
    """Two-sided p of the mean of `values` [queries] against `margin`, by flipping signs over queries.

    Under the null a query's value is as likely to lie as far on the other side of the margin. All
    2ⁿ patterns of signs are taken where these are no more than `flips`, else `flips` are drawn, the
    same for all columns, and p = (1 + hits) / (1 + flips). NaN for columns that hold NaN and
    without queries. R. A. Fisher, *The Design of Experiments* (1935), 21.
    """
    columns, shape = _columns(values)
    moved = columns - margin
    moved = np.where(np.abs(moved) <= ROUNDING * np.maximum(np.abs(columns), abs(margin)), 0, moved)
    n, k = moved.shape
    undefined = ~np.isfinite(moved).all(axis=0) | (n == 0)
    moved = np.where(undefined, 0.0, moved)
    observed, slack = moved.sum(axis=0), SLACK * np.abs(moved).sum(axis=0)
    exact = 2**n <= flips if n < 64 else False
    hits, drawn = np.zeros(k), 0
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(2**n if exact else flips, max(n, k)):
        if exact:
            patterns = np.arange(drawn, drawn + rows)[:, None] >> np.arange(n) & 1
        else:
            patterns = rng.integers(2, size=(rows, n), dtype=np.int8)
        sums = (patterns * 2.0 - 1.0) @ moved
        hits += (np.abs(sums) >= np.abs(observed) - slack).sum(axis=0)
        drawn += rows
    p = hits / drawn if exact else (1 + hits) / (1 + drawn)
    return np.where(undefined, np.nan, p).reshape(shape)


def rank_p(hits: int, sets: int) -> float:
    """p of a target among random sets of which `hits` do at least as much: (1 + hits) / (1 + sets).

    B. Phipson and G. Smyth, "Permutation p-values should never be zero" (2010).
    """
    return (1 + hits) / (1 + sets)


FALSE_DISCOVERY_RATE = 0.05
"""The level of q from which on a head is named."""


def q_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini–Hochberg q of each p-value; a None is outside the family and stays None.

    Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995).
    Raises ArgumentError for a p-value outside 0..1.
    """
    family = [place for place, p in enumerate(p_values) if p is not None]
    tested = np.array([p for p in p_values if p is not None], dtype=np.float64)
    if not ((tested >= 0) & (tested <= 1)).all():
        raise ArgumentError(f"p-values must lie in 0..1: {tested.tolist()}")
    order = np.argsort(-tested, kind="stable")
    scaled = tested[order] * (len(tested) / np.arange(len(tested), 0, -1))
    result: list[float | None] = [None] * len(p_values)
    for place, q in zip(order, np.minimum.accumulate(scaled), strict=True):
        result[family[place]] = float(min(q, 1.0))
    return result


def _columns(values: npt.ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
    """Values as [queries, k], and the shape of the answer."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ArgumentError(f"values have shape {array.shape}, not (queries,) or (queries, k)")
    return array if array.ndim == 2 else array[:, None], array.shape[1:]
