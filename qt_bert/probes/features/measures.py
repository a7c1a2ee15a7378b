"""The numbers behind claims and figures: means over heads, layers and thirds of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.models.heads import Head, Shape
from qt_bert.probes.features.looking import Looking, When
from qt_bert.probes.naming import means
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.stats.intervals import bootstrap_weights

EMPTY = ("cls", "sep", "punctuation")
"""Where attention goes that says nothing of words."""

HALF = 0.5


def thirds(layers: int) -> tuple[slice, slice] | None:
    """The first and the last third of the layers; None for a single layer, which has no order."""
    if layers < 2:
        return None
    size = max(1, layers // 3)
    return slice(0, size), slice(layers - size, layers)


def has_heads(shape: Shape, layer: int) -> bool:
    """Whether a layer, counted from the end where negative, has heads that were not pruned."""
    return any(head.layer == layer % shape.layers for head in shape.all_heads)


def over_heads(per_head: FloatArray) -> FloatArray:
    """The mean over the heads that are there: [queries, layers, heads] → [queries]; NaN for none."""
    known = np.isfinite(per_head)
    sums, counts = np.where(known, per_head, 0.0).sum(axis=(1, 2)), known.sum(axis=(1, 2))
    return np.asarray(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))


def by_layer(per_head: FloatArray) -> FloatArray:
    """The same for each layer [queries, layers]."""
    layers = per_head.shape[1]
    return np.stack([over_heads(per_head[:, [layer]]) for layer in range(layers)], axis=1)


def summed(
    looking: Looking, kinds: Sequence[str], when: When = "after", measure: str = "share"
) -> FloatArray:
    """One of MEASURES of several kinds together [queries, layers, heads]; what is not there gets none.

    A head that was pruned gives nothing to [CLS] either, so that it stays NaN.
    """
    first = looking.of("cls", when, measure)
    total = sum(np.nan_to_num(looking.of(kind, when, measure)) for kind in kinds)
    return np.where(np.isfinite(first), total, np.nan)


def empty_heads(looking: Looking, shape: Shape, when: When = "after") -> list[Head]:
    """The heads that give over half of their attention to EMPTY."""
    share = means(summed(looking, EMPTY, when))
    return [head for head in shape.all_heads if share[head] > HALF]


def empty_share(
    looking: Looking, shape: Shape, resamples: int, seed: int, when: When = "after"
) -> tuple[float, FloatArray]:
    """Such heads as a share of all, and that in resamples of the queries [R]."""
    given = summed(looking, EMPTY, when)
    shares = np.stack([given[:, head.layer, head.head] for head in shape.all_heads], axis=1)
    value = float((shares.mean(axis=0) > HALF).mean())
    queries = len(shares)
    if queries < 2:
        return value, np.empty(0)
    drawn = bootstrap_weights(queries, resamples, seed, width=shares.size)
    found = [(weights @ shares / queries > HALF).mean(axis=1) for weights in drawn]
    return value, np.concatenate([np.empty(0), *found])


def gaining(looking: Looking, kind: str, shape: Shape) -> BoolArray:
    """The heads to whose attention for a kind fine-tuning added [layers, heads], by the mean."""
    change = means(looking.of(kind) - looking.of(kind, "before"))
    found = np.zeros(shape.size, bool)
    for head in shape.all_heads:
        found[head] = change[head] > 0
    return found


def gained(looking: Looking, kind: str, heads: BoolArray) -> FloatArray:
    """What fine-tuning added in `heads`, spread over all heads that are there [queries]."""
    change = looking.of(kind) - looking.of(kind, "before")
    counted = np.where(heads, change, 0.0)
    return over_heads(np.where(np.isfinite(change), counted, np.nan))


def last_cls(looking: Looking, kind: str, when: When = "after") -> FloatArray:
    """What [CLS] of the last layer gives to the kind's token it looks at most [queries]."""
    return over_heads(looking.of(kind, when, "cls_peak")[:, -1:])


def known_mean(per_query: FloatArray) -> float:
    """The mean over queries, NaN where none says anything."""
    return float(means(per_query))
