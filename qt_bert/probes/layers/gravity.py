"""Where in the layers something is found: centres of gravity, and how spread out it is."""

from __future__ import annotations

import numpy as np

from qt_bert.stats.arrays import FloatArray, ratio


def gains(choosing: FloatArray, told: FloatArray) -> FloatArray:
    """What each layer adds to the best one below it [..., layers].

    Both hold scores [..., 1 + layers], first that of a probe that knows nothing. Which layer is the
    best so far is read off `choosing`, what it adds off `told`. Of the same examples a flat curve
    gains by its noise alone, most of all in high layers; of different ones such gains cancel out.
    """
    best = np.maximum.accumulate(choosing, axis=-1)
    rises = np.zeros(choosing.shape, bool)
    rises[..., 1:] = choosing[..., 1:] > best[..., :-1]
    numbers = np.where(rises, np.arange(choosing.shape[-1]), 0)
    so_far = np.maximum.accumulate(numbers, axis=-1)
    return np.asarray(np.diff(np.take_along_axis(told, so_far, axis=-1), axis=-1))


def centre(weights: FloatArray) -> FloatArray:
    """Σ layer × weight / Σ weight of [..., layers]: [...]; NaN where nothing weighs anything."""
    layers = np.arange(weights.shape[-1])
    return ratio(weights @ layers, weights.sum(axis=-1))


def entropy(weights: FloatArray) -> FloatArray:
    """−Σ p ln p of weights that add up to 1 [..., layers]: [...]; ln(layers) where all are alike."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(-(weights * logs).sum(axis=-1))
