"""[CLS]'s rows of many pairs under many variants, as means over the pairs of each query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.probes.base import Context
from qt_bert.probes.focus.cls_row import NAME, QUANTITIES, Places, cls_row
from qt_bert.probes.naming import by_query
from qt_bert.probes.streams import stream
from qt_bert.stats.arrays import FloatArray


def rows(
    context: Context,
    pairs: Sequence[Pair],
    layers: Sequence[int],
    variants: Sequence[Variant] = (),
) -> FloatArray:
    """The plain model's rows, then those of `variants` [queries, 1 + variants, layers, heads, 9].

    NaN where no pair of a query says anything; no queries where there are no pairs.
    """
    scorer = context.model
    heads, every = scorer.checkpoint.heads, [NONE, *variants]
    if not pairs:
        return np.empty((0, len(every), len(layers), heads, len(QUANTITIES)))
    texts = [(pair.query, pair.title) for pair in pairs]
    reduction = cls_row(layers, Places(texts, context.segmenter))
    with context.progress(len(every) * len(pairs), "runs") as shown:
        found = stream(scorer, texts, [reduction], every, shown=shown)[NAME]
    return by_query(np.moveaxis(found, 1, 0), [pair.query for pair in pairs])
