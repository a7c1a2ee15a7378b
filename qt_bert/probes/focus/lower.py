"""The heads below: those that match terms, and, for the wiring, those that matter at all."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.ablation.importance import importance_on
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.matching_scores import chosen_heads
from qt_bert.probes.naming import ranked
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer

MATCHING = 5
"""As many as the article leaves out."""


def matching_below(context: Context, shape: Shape, layer: int) -> list[Head]:
    """The five heads below `layer` that match terms best on discovery; fewer where there are fewer."""
    below = [head for head in shape.all_heads if head.layer < layer]
    return chosen_heads(context, MATCHING, below)


def important_below(
    scorer: Scorer, pairs: Sequence[Pair], layer: int, count: int, shown: Progress
) -> list[Head]:
    """The `count` heads below `layer` of the largest gradient importance on `pairs`."""
    importance = importance_on(scorer, pairs, shown)
    return [head for head in ranked(importance.raw) if head.layer < layer][:count]
