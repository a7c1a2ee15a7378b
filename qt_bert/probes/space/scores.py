"""How near things of one class lie to each other: silhouettes, with labels permuted as a control.

P. J. Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of cluster
analysis", J. Comput. Appl. Math. 20 (1987). Of vectors in all their dimensions, not of a picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.probes.controls import rank_p
from qt_bert.probes.naming import Average, average, by_query
from qt_bert.stats.arrays import FloatArray, IntArray

_AT_ONCE = 50


@dataclass(frozen=True, eq=False)
class Score:
    """Of one labelling in one layer: the mean silhouette over queries, and those of permuted labels [D]."""

    found: Average
    permuted: FloatArray

    @property
    def above_chance(self) -> float:
        """The mean less that of permuted labels."""
        return float(self.found.value - self.permuted.mean())

    @property
    def p(self) -> float | None:
        """The place of the mean among those of permuted labels."""
        return rank_p(self.found.value, self.permuted, below=False)


def score(
    vectors: FloatArray,
    labels: IntArray,
    queries: IntArray,
    *,
    draws: int,
    resamples: int,
    seed: int,
) -> Score:
    """The score of `labels` [n] on `vectors` [n, width], items being of `queries` [n]."""
    from scipy.spatial.distance import pdist, squareform

    distances = squareform(pdist(vectors))
    names = [str(query) for query in queries]
    own = by_query(silhouettes(distances, labels[None])[0][:, None], names)[:, 0]
    rng = np.random.default_rng(seed)
    permuted = np.stack([rng.permutation(labels) for _ in range(draws)])
    chunks = np.array_split(permuted, -(-draws // _AT_ONCE))
    control = np.concatenate([silhouettes(distances, chunk) for chunk in chunks])
    return Score(average(own, resamples, seed), by_query(control.T, names).mean(axis=0))


def silhouettes(distances: FloatArray, labels: IntArray) -> FloatArray:
    """Of each item (b − a) / max(a, b): [n, n] and labels [D, n] → [D, n].

    a is its mean distance to the others of its class, b that to the nearest other class; 0 for the
    only one of its class, and where all distances are 0.
    """
    draws, n = labels.shape
    of = labels[..., None] == np.arange(labels.max() + 1)  # [D, n, classes]
    sums = (distances @ of.transpose(1, 0, 2).reshape(n, -1)).reshape(n, draws, -1)
    sums = sums.transpose(1, 0, 2)
    sizes = np.broadcast_to(of.sum(axis=1, keepdims=True), sums.shape)
    means = np.divide(sums, sizes, out=np.full(sums.shape, np.inf), where=sizes > 0)
    own_size = np.take_along_axis(sizes, labels[..., None], -1)[..., 0]
    own_sum = np.take_along_axis(sums, labels[..., None], -1)[..., 0]
    a = own_sum / np.maximum(own_size - 1, 1)
    b = np.where(of, np.inf, means).min(axis=-1)
    larger = np.maximum(a, b)
    alone = (own_size < 2) | (larger == 0)
    return np.asarray(np.where(alone, 0.0, (b - a) / np.where(larger > 0, larger, 1.0)))
