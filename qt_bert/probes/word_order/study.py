"""What the study of word order runs: scores of heads, disturbed texts, the sweep over shuffled titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.asked import reference_means
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head, Shape
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.pairs.sample import sample_queries
from qt_bert.probes.common.norms import head_norms
from qt_bert.probes.common.streams import stream
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.term_matching.scores import matching_heads
from qt_bert.probes.word_order.disturbed import Disturbed, disturbed
from qt_bert.probes.word_order.grades import Ends, ends, expected_grades
from qt_bert.probes.word_order.masks import CURVE, Draws, Masks, masks
from qt_bert.probes.word_order.scores import OrderScores, order_scores
from qt_bert.probes.word_order.sensitivity import Sensitivity, Texts
from qt_bert.probes.word_order.texts import cutting

QUICK_SCORED = 80
QUICK_DISTURBED = 60
QUICK_QUERIES = 11
QUICK_DRAWS = Draws(matched=99, free=20, curve=5, curve_free=0)
FULL_DRAWS = Draws(matched=999, free=100, curve=20, curve_free=20)
QUICK_SHUFFLES, FULL_SHUFFLES = 1, 5
MATCHING_HEADS = 5
"""As many matching heads as the article left out."""

CASE_QUERY, CASE_TITLE, CASE_SHUFFLED = "京东小哥", "京东小哥最近在干嘛", "近东嘛最都在干哥小京"
"""The article's case (2.3) with its own shuffled title."""


@dataclass(frozen=True, eq=False)
class Study:
    """Scores on both splits; `order_heads`, chosen on discovery; and what was measured on validation.

    `variants` are the names of the sweep's rows, the plain model first; `case` holds the logits of
    the article's case, straight and shuffled [variants, 2, outputs].
    """

    shape: Shape
    labels: ModelLabels
    discovery: OrderScores
    validation: OrderScores
    order_heads: list[Head]
    matching_heads: list[Head]
    masks: Masks
    variants: list[str]
    ends: Ends
    texts: Texts
    draws: Draws
    shuffles: int
    sensitivity: Sensitivity
    disturbed: Disturbed
    case: np.ndarray

    def rows(self, variants: Iterable[Variant]) -> list[int]:
        """Where these variants stand in the sweep."""
        return [self.variants.index(variant.name) for variant in variants]


def study(context: ProbeContext) -> Study:
    """Run all of it; order heads are chosen on discovery, everything else is of validation."""
    scorer = context.model
    shape = Shape(scorer.checkpoint.layers, scorer.checkpoint.heads)
    labels = scorer.checkpoint.settings.labels
    found = {split: _scores(context, split) for split in ("discovery", "validation")}
    best = found["discovery"].best(max(CURVE))
    matching = _matching_heads(context)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    made = _masks(context, best, shape, draws, matching)
    at = ends(context.validation, labels)
    shuffles = context.choose(QUICK_SHUFFLES, FULL_SHUFFLES)
    texts = Texts.of(_sensitivity_pairs(context, at), at, draws=shuffles, seed=context.seed)
    logits = _sweep(context, texts, made.variants)
    grades = expected_grades(logits[:, :-2], labels)
    return Study(
        shape=shape,
        labels=labels,
        discovery=found["discovery"],
        validation=found["validation"],
        order_heads=list(made.claim.target.heads) if made.claim else [],
        matching_heads=matching,
        masks=made,
        variants=[variant.name for variant in made.variants],
        ends=at,
        texts=texts,
        draws=draws,
        shuffles=shuffles,
        sensitivity=Sensitivity(grades, texts, resamples=context.resamples, seed=context.seed),
        disturbed=_disturbed(context),
        case=logits[:, -2:],
    )


def _scores(context: ProbeContext, split: str) -> OrderScores:
    pairs: list[Pair] = getattr(context, split)
    pairs = sample_queries(pairs, context.choose(QUICK_SCORED, len(pairs)), context.seed)
    with context.progress(2 * len(pairs), "texts") as shown:
        return order_scores(context.model, pairs, seed=context.seed, shown=shown)


def _matching_heads(context: ProbeContext) -> list[Head]:
    """Empty where the pairs have no terms to match."""
    try:
        return matching_heads(context, MATCHING_HEADS)
    except ArgumentError:
        return []


def _masks(
    context: ProbeContext,
    best: Sequence[Head],
    shape: Shape,
    draws: Draws,
    matching: Sequence[Head],
) -> Masks:
    """Under --full with the loudness-matched control and the mode `mean`."""
    if not context.full:
        return masks(best, shape, draws, seed=context.seed, matching=matching)
    pairs = context.discovery
    means = reference_means(context.model, context.reference_pairs)
    with context.progress(len(pairs), "pairs") as shown:
        norms = head_norms(context.model, pairs, shown=shown)

    def mean(heads: Iterable[Head]) -> Part:
        return HeadMask(tuple(heads), "mean", means)

    return masks(best, shape, draws, seed=context.seed, matching=matching, norms=norms, mean=mean)


def _sensitivity_pairs(context: ProbeContext, at: Ends) -> list[Pair]:
    """High and low pairs; in quick one of each for a few queries."""
    pairs = [p for p in context.validation if p.grades in at.high or p.grades in at.low]
    if context.full or not pairs:
        return pairs
    first: dict[tuple[str, bool], Pair] = {}
    for pair in pairs:
        first.setdefault((pair.query, pair.grades in at.high), pair)
    return sample_queries(list(first.values()), 2 * QUICK_QUERIES, context.seed)


def _sweep(context: ProbeContext, texts: Texts, variants: list[Variant]) -> np.ndarray:
    """Logits [variants, rows of `texts` and the case straight and shuffled, outputs]."""
    scorer = context.model
    listed = [*texts.pairs, (CASE_QUERY, CASE_TITLE), (CASE_QUERY, CASE_SHUFFLED)]
    if len(variants) > 1:
        encoded = scorer.tokenizer.encode(listed, offsets=False)
        context.guards["shuffled_titles"] = run_guards(
            scorer.checkpoint, scorer.encoder, variants, encoded, seed=context.seed
        )
    with context.progress(len(listed) * len(variants), "runs") as shown:
        return stream(scorer, listed, [], variants, shown=shown)["logits"]


def _disturbed(context: ProbeContext) -> Disturbed:
    pairs = context.validation
    pairs = sample_queries(pairs, context.choose(QUICK_DISTURBED, len(pairs)), context.seed)
    with context.progress(None, "texts") as shown:
        return disturbed(
            context.model,
            pairs,
            cutting(context),
            draws=context.choose(1, FULL_SHUFFLES),
            resamples=context.resamples,
            seed=context.seed,
            shown=shown,
        )
