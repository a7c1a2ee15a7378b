"""The article's case: [CLS]'s attention token by token, with and without the matching heads (2.4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.segmenters import Segmenter
from qt_bert.models.heads import Head
from qt_bert.probes.focus.terms import MATCHED, kinds_of
from qt_bert.probes.streams import spelled, stream
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

QUERY, TITLE = "紫熨斗", "紫熨斗好用吗"
"""The query is the article's; it does not print the title."""


@dataclass(frozen=True, eq=False)
class Case:
    """[CLS]'s weights in one head on each token: as it is, without the matching heads, and with
    others of their layers left out instead, on average; None where these cannot be drawn.

    `matched` says which tokens belong to terms that stand in both texts.
    """

    tokens: tuple[str, ...]
    matched: tuple[bool, ...]
    before: FloatArray
    after: FloatArray
    control: FloatArray | None


def case_of(
    scorer: Scorer,
    segmenter: Segmenter,
    head: Head,
    target: Variant,
    matched: Sequence[Variant],
) -> Case:
    """The article's query under `head`, plain, without `target`, and without each of `matched`."""

    def weights(view: View) -> torch.Tensor:
        return view.values[:, head.head, 0]

    reduction = Reduction("weights", "attention", (head.layer,), weights, first_row=True)
    found = stream(scorer, [(QUERY, TITLE)], [reduction], [NONE, target, *matched])["weights"]
    lines = found[:, 0, 0].astype(np.float64)
    (encoded,) = scorer.tokenizer.encode([(QUERY, TITLE)])
    kinds = kinds_of(encoded, QUERY, TITLE, segmenter)
    return Case(
        spelled(encoded, QUERY, TITLE),
        tuple(bool(kind in MATCHED) for kind in kinds),
        lines[0],
        lines[1],
        lines[2:].mean(axis=0) if matched else None,
    )
