"""Which heads made one pair's grade: each left out alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.ablation.families import single
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.loop import batch_tokens, sweep
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.variant import Variant, with_plain
from qt_bert.errors import ArgumentError
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.outputs import Outputs, read_outputs


@dataclass(frozen=True)
class HeadEffect:
    """What leaving one head out does: `change` of the expected grade (or the one logit)."""

    head: str
    score: float
    change: float


def explain_heads(query: str, title: str, scorer: Scorer) -> list[HeadEffect]:
    """Every head of the model left out alone on (query, title); the largest changes first.

    The changes are no shares of the grade: heads stand in for each other, so they do not add up.
    The guards come first. Raises ArgumentError for a scorer that leaves heads out already, and
    GuardError where a guard fails.
    """
    if scorer.left_out:
        raise ArgumentError("heads are left out one by one of the whole model alone")
    checkpoint, scorer = scorer.checkpoint, scorer.fresh()
    shape = checkpoint.shape
    variants = with_plain(single(shape, lambda heads: HeadMask(tuple(heads))))
    encoded = scorer.tokenizer.encode([(query, title)], offsets=False)
    run_guards(checkpoint, scorer.encoder, variants, encoded)
    batches = scorer.batches([(query, title)], batch_tokens())
    (swept,) = sweep(scorer.encoder, batches, variants)
    return head_effects(variants, read_outputs(swept.logits[:, 0], checkpoint.settings.labels))


def head_effects(variants: Sequence[Variant], outputs: Outputs) -> list[HeadEffect]:
    """One pair's `outputs` under each of `variants`, `none` first; the largest changes first."""
    scores = outputs.ranking_score
    effects = [
        HeadEffect(variant.name, float(score), float(score - scores[0]))
        for variant, score in zip(variants[1:], scores[1:], strict=True)
    ]
    return sorted(effects, key=lambda one: -abs(one.change))
