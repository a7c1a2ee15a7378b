"""Vectors in two dimensions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

_PERPLEXITY = 30.0


class Plane(NamedTuple):
    """Items [n, 2], with the names of the two axes."""

    at: FloatArray
    axes: tuple[Text, Text]


def pca(vectors: FloatArray) -> Plane:
    """The two directions in which `vectors` [n, width] differ most, with their share of the variance."""
    from sklearn.decomposition import PCA

    fitted = PCA(2, svd_solver="full").fit(vectors)
    shares = [100 * float(share) for share in np.nan_to_num(fitted.explained_variance_ratio_)]
    axes = [
        Text(
            f"第{zh}主成分（{share:.0f} % 的方差）",
            f"component {number} ({share:.0f} % of variance)",
        )
        for number, (zh, share) in enumerate(zip("一二", shares, strict=True), start=1)
    ]
    return Plane(fitted.transform(vectors), (axes[0], axes[1]))


def tsne(vectors: FloatArray, seed: int) -> Plane:
    """t-SNE from the principal components: what is near stays near, other distances mean nothing."""
    from sklearn.manifold import TSNE

    near = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    at = TSNE(2, perplexity=near, init="pca", random_state=seed).fit_transform(vectors)
    return Plane(
        np.asarray(at, np.float64), (Text("t-SNE 1", "t-SNE 1"), Text("t-SNE 2", "t-SNE 2"))
    )
