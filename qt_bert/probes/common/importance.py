"""Gradient importance of a model's heads on graded pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.effect_metrics import meant_logits
from qt_bert.ablation.importance import Importance, gradient_importance
from qt_bert.ablation.loop import batch_tokens
from qt_bert.encoder import open_checkpoint
from qt_bert.pairs import Pair
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def importance_on(scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent) -> Importance:
    """`gradient_importance` on `pairs`, in float32 whatever the scorer's dtype; `shown` counts pairs."""
    labels = scorer.checkpoint.settings.labels  # a checkpoint opened anew would read its own
    if scorer.checkpoint.dtype != "float32":
        exact = open_checkpoint(scorer.checkpoint.folder)
        scorer = Scorer(exact, max_length=scorer.tokenizer.max_length)
    texts = [(pair.query, pair.title) for pair in pairs]
    batches = scorer.fresh().batches(texts, batch_tokens())
    sets = None
    if labels.logits > 1:
        sets = [tuple(map(int, np.flatnonzero(row))) for row in meant_logits(list(pairs), labels)]
    return gradient_importance(scorer.encoder, batches, sets, shown)
