"""Where in the layers something is found: centres of gravity, and how spread out it is."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, ratio


def gains(scores: FloatArray, floor: FloatArray | float = 0.0) -> FloatArray:
    """What each layer adds to the best score below it [..., layers]: never less than nothing.

    That of r0 is its score above `floor` [...], what a probe gets that knows nothing. So they add
    up to the best score of all, above the floor.
    """
    start = np.broadcast_to(np.asarray(floor, np.float64)[..., None], (*scores.shape[:-1], 1))
    best = np.maximum.accumulate(np.concatenate([start, scores], axis=-1), axis=-1)
    return np.asarray(np.diff(best, axis=-1))


def centre(weights: FloatArray) -> FloatArray:
    """Σ layer × weight / Σ weight of [..., layers]: [...]; NaN where nothing weighs anything.

    Of a mix's weights it is the centre of gravity, of gains the expected layer, of Tenney et al. 2019,
    "BERT Rediscovers the Classical NLP Pipeline".
    """
    layers = np.arange(weights.shape[-1])
    return ratio(weights @ layers, weights.sum(axis=-1))


def entropy(weights: FloatArray) -> FloatArray:
    """−Σ p ln p of weights that add up to 1 [..., layers]: [...]; ln(layers) where all are alike."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(-(weights * logs).sum(axis=-1))
