"""The transparent classifier: a few thresholds on what the definitions of the kinds say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.probes.patterns.features import FEATURES
from qt_bert.probes.patterns.kinds import KINDS
from qt_bert.stats.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Rules:
    """A map is the first of these that it is, else heterogeneous.

    Block: `even` (or, over its own segment, `even_own`) at least so much; both: at least `part` of a
    row's weight on the best four columns off the band, and as much in the band off these columns;
    diagonal: at least `band` on offsets −2…2; vertical: at least `columns` on the best four columns.
    """

    even: float = 0.8
    even_own: float = 0.6
    band: float = 0.5
    columns: float = 0.5
    part: float = 0.3

    def of_features(self, found: FloatArray) -> IntArray:
        """The kind of every map [N], as its place in KINDS, from its FEATURES [N, FEATURES]."""
        seen = dict(zip(FEATURES, found.T, strict=True))
        is_kind = {
            "block": (seen["even"] >= self.even) | (seen["even_own"] >= self.even_own),
            "both": np.minimum(seen["stripes"], seen["line"]) >= self.part,
            "diagonal": seen["band"] >= self.band,
            "vertical": seen["columns"] >= self.columns,
        }
        places = [KINDS.index(kind) for kind in is_kind]
        return np.select(list(is_kind.values()), places, KINDS.index("heterogeneous"))
