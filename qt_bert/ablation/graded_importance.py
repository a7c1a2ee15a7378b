"""Gradient importance of a model's heads and feed-forward units on graded pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.ablation.effect_metrics import meant_logits
from qt_bert.ablation.importance import Importance, LabelSets, gradient_importance
from qt_bert.ablation.loop import batch_tokens
from qt_bert.ablation.unit_importance import unit_importance
from qt_bert.encoder import ModelLabels, open_checkpoint
from qt_bert.encoder.batches import Batch
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def importance_on(scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent) -> Importance:
    """`gradient_importance` on `pairs`, in float32 whatever the scorer's dtype; `shown` counts pairs."""
    labels = scorer.checkpoint.settings.labels  # a checkpoint opened anew would read its own
    if scorer.checkpoint.dtype != "float32":
        exact = open_checkpoint(scorer.checkpoint.folder)
        scorer = Scorer(exact, max_length=scorer.tokenizer.max_length)
    batches = _batches(scorer, pairs)
    return gradient_importance(scorer.encoder, batches, label_sets(pairs, labels), shown)


def unit_importance_on(
    scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent
) -> list[FloatArray]:
    """`unit_importance` on `pairs`; the scorer's model must be in float32. `shown` counts pairs."""
    labels = scorer.checkpoint.settings.labels
    return unit_importance(
        scorer.encoder, _batches(scorer, pairs), label_sets(pairs, labels), shown
    )


def label_sets(pairs: Sequence[Pair], labels: ModelLabels) -> LabelSets | None:
    """The logits that each pair's label may mean; None for a model of one logit."""
    if labels.logits == 1:
        return None
    return [tuple(map(int, np.flatnonzero(row))) for row in meant_logits(list(pairs), labels)]


def _batches(scorer: Scorer, pairs: Sequence[Pair]) -> Iterator[Batch]:
    texts = [(pair.query, pair.title) for pair in pairs]
    return scorer.fresh().batches(texts, batch_tokens())
