"""Streamed passes: a few numbers a pair from attention, never more than one batch of maps at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from qt_bert.ablation.loop import Swept, batch_tokens, sweep
from qt_bert.ablation.reduction import Reduction
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.errors import ArgumentError
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def stream(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    reductions: Sequence[Reduction],
    variants: Sequence[Variant] = (NONE,),
    *,
    shown: Progress = silent,
) -> dict[str, np.ndarray]:
    """Each reduction's numbers [variants, pairs, its layers, …], pairs in the order of `texts`.

    Under the name `logits` the outputs [variants, pairs, labels] stand beside them. `View.batch.rows`
    tells a reduction which of `texts` it sees, `View.batch.encoded` its tokens, sides and spans.
    `shown` counts variants × pairs. Raises ArgumentError for no texts.
    """
    if not len(texts):
        raise ArgumentError("no pairs to look at: the sample is empty")
    batches = scorer.fresh().batches(texts, batch_tokens(len(variants)), offsets=True)
    swept = sweep(scorer.encoder, batches, variants, reductions, shown=shown)
    return gathered(swept, len(texts))


def gathered(swept: Iterable[Swept], pairs: int) -> dict[str, np.ndarray]:
    """The batches of a sweep over so many pairs, put together as `stream` gives them."""
    found: dict[str, np.ndarray] = {}
    for batch in swept:
        for name, values in {"logits": batch.logits, **batch.reduced}.items():
            if name not in found:
                shape = (values.shape[0], pairs, *values.shape[2:])
                found[name] = np.full(shape, np.nan, np.float32)
            found[name][:, batch.rows] = values
    return found
