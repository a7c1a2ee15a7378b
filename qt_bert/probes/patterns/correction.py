"""Shares corrected for what the classifier confuses: how much of a figure its errors could make."""

from __future__ import annotations

import numpy as np

from qt_bert.stats.arrays import BoolArray, FloatArray

LEAST_MAPS = 10
"""Of a kind with fewer labelled maps neither the errors nor the F1 are known."""


def are_known(confusion: FloatArray) -> BoolArray:
    """Whether a kind's errors are known [KINDS], from counts [KINDS, KINDS], labels as rows."""
    return np.asarray(confusion.sum(axis=1) >= LEAST_MAPS)


def rates(confusion: FloatArray, known: BoolArray) -> FloatArray:
    """How often a map of each kind (rows) gets each answer (columns), from counts [KINDS, KINDS].

    A kind whose errors are not `known` [KINDS] is taken to be told rightly.
    """
    rightly = np.eye(len(confusion))
    totals = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, totals, out=rightly.copy(), where=totals > 0)
    return np.where(known[:, None], shares, rightly)


def corrected(shares: FloatArray, rates: FloatArray) -> FloatArray:
    """The shares of kinds [KINDS] that would give the answers' `shares` [KINDS] at these `rates`.

    None is below 0 and they sum to 1; among such the nearest in least squares (G. Forman's adjusted
    count, "Quantifying counts and costs via classification", DMKD 2008, for several classes).
    """
    from scipy.optimize import nnls

    # The last row, weighted up, asks for a sum of 1.
    weight = 1e3
    left = np.vstack([rates.T, np.full(len(rates), weight)])
    found, _ = nnls(left, np.append(shares, weight))
    return np.asarray(found / found.sum())
