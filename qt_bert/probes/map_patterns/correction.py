"""Shares corrected for what the classifier confuses: how much of a figure its errors could make."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.arrays import FloatArray

LEAST_MAPS = 10
"""A kind with fewer labelled maps is taken to be told rightly: its errors are not known."""


def answers(confusion: FloatArray) -> FloatArray:
    """How often a map of each kind (rows) gets each answer (columns), from counts [KINDS, KINDS]."""
    totals = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, totals, out=np.eye(len(confusion)), where=totals > 0)
    return np.where(totals >= LEAST_MAPS, shares, np.eye(len(confusion)))


def corrected(shares: FloatArray, confusion: FloatArray) -> FloatArray:
    """The shares of kinds [KINDS] that would give the answers' `shares` [KINDS] with these errors.

    None is below 0 and they sum to 1; among such the nearest in least squares (G. Forman's adjusted
    count, "Quantifying counts and costs via classification", DMKD 2008, for several classes).
    """
    from scipy.optimize import nnls

    # The last row, weighted up, asks for a sum of 1.
    weight = 1e3
    left = np.vstack([answers(confusion).T, np.full(len(confusion), weight)])
    found, _ = nnls(left, np.append(shares, weight))
    return np.asarray(found / found.sum())


def redrawn(confusion: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Another table as it could have come out: each row's maps drawn anew from its own answers."""
    shares = answers(confusion)
    return np.stack(
        [
            rng.multinomial(int(row.sum()), share / share.sum())
            for row, share in zip(confusion, shares, strict=True)
        ]
    ).astype(np.float64)
