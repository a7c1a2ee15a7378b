"""A scorer that leaves heads out: `--heads-out` of score, evaluate, compare and explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qt_bert.ablation.asked import parts_with, reference_means
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.loop import masked_forward
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder.heads import parse_heads, spell
from qt_bert.pairs import Pair
from qt_bert.scoring.bulk import LeftOut, Scorer


def leave_heads_out(scorer: Scorer, heads: str, mode: str, reference: Sequence[Pair]) -> Scorer:
    """`scorer` without `heads` ('L2H1 L3H7'), replaced as `mode` says, once the guards have passed.

    Guards, and under `mean` the mean contexts, are taken on the `reference` pairs. Raises
    ArgumentError for bad heads or an unknown mode, GuardError where a guard fails.
    """
    checkpoint = scorer.checkpoint
    named = parse_heads(heads, checkpoint.shape)
    part = parts_with(lambda: reference_means(scorer, reference))(mode, named)
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in reference], offsets=False)
    guards = run_guards(checkpoint, scorer.encoder, [Variant("heads out", (part,))], encoded)
    return without_part(scorer, part, guards)


def without_part(scorer: Scorer, part: Part, guards: Mapping[str, Any]) -> Scorer:
    """`scorer` with `part` in place, whose guards have passed with the figures `guards`."""
    return scorer.without(
        LeftOut(
            heads=spell(part.heads),
            mode=part.kind,
            forward=masked_forward(scorer.encoder, part),
            means=None if part.means is None else part.means.sha256,
            guards=guards,
        )
    )
