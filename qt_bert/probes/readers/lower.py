"""The heads below: those that match terms, and, for the wiring, those that matter at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.effect_metrics import meant_logits
from qt_bert.ablation.importance import gradient_importance
from qt_bert.ablation.loop import tokens_at_once
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head, Shape
from qt_bert.pairs import Pair
from qt_bert.probes.common.naming import ranked
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.term_matching.scores import matching_heads
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer

MATCHING = 5
"""As many as the article leaves out."""


def matching_below(context: ProbeContext, shape: Shape, layer: int) -> list[Head]:
    """The five heads below `layer` that match terms best on discovery; fewer where there are fewer."""
    every = matching_heads(context, len(shape.all_heads))
    return [head for head in every if head.layer < layer][:MATCHING]


def important_below(
    scorer: Scorer, pairs: Sequence[Pair], layer: int, count: int, shown: Progress
) -> list[Head]:
    """The `count` heads below `layer` of the largest gradient importance on `pairs`."""
    labels = scorer.checkpoint.settings.labels  # a checkpoint opened anew would read its own
    if scorer.checkpoint.dtype != "float32":  # gradients would be too coarse
        exact = open_checkpoint(scorer.checkpoint.folder)
        scorer = Scorer(exact, max_length=scorer.tokenizer.max_length)
    texts = [(pair.query, pair.title) for pair in pairs]
    batches = scorer.fresh().batches(texts, tokens_at_once(scorer.encoder))
    sets = None
    if labels.logits > 1:
        sets = [tuple(map(int, np.flatnonzero(row))) for row in meant_logits(list(pairs), labels)]
    importance = gradient_importance(scorer.encoder, batches, sets, shown)
    return [head for head in ranked(importance.raw) if head.layer < layer][:count]
