"""What the study of word order runs: scores of heads, disturbed texts, the sweep over shuffled titles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import reference_means
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import OtherSeed, other_seed
from qt_bert.probes.matching_scores import chosen_heads
from qt_bert.probes.order.disturbed import Disturbed, disturbed
from qt_bert.probes.order.grades import Ends, ends, expected_grades
from qt_bert.probes.order.head_scores import OrderScores
from qt_bert.probes.order.masks import CURVE, Draws, Masks, masks
from qt_bert.probes.order.samples import of_all_labels, sensitivity_pairs
from qt_bert.probes.order.scores import order_scores
from qt_bert.probes.order.sensitivity import Sensitivity, Texts
from qt_bert.probes.order.texts import cutting
from qt_bert.probes.split import reference
from qt_bert.probes.streams import head_norms, stream
from qt_bert.scoring.bulk import Scorer

QUICK_SCORED = 80
QUICK_DISTURBED = 80
QUICK_QUERIES = 16
QUICK_DRAWS = Draws(matched=99, free=20, curve=5, curve_free=0, sizes=(3, 7, 14))
FULL_DRAWS = Draws(matched=999, free=100, curve=20, curve_free=20)
QUICK_SHUFFLES, FULL_SHUFFLES = 1, 5
MATCHING_HEADS = 5
"""As many matching heads as the article left out."""

CASE_QUERY, CASE_TITLE, CASE_SHUFFLED = "京东小哥", "京东小哥最近在干嘛", "近东嘛最都在干哥小京"
"""The article's case (2.3) with its own shuffled title."""

_CASE = [
    Pair(CASE_QUERY, title, None, f"article-{name}", 0, None, {})
    for name, title in (("straight", CASE_TITLE), ("shuffled", CASE_SHUFFLED))
]

SWEEP = "shuffled_titles"


@dataclass(frozen=True, eq=False)
class Study:
    """Scores on both splits; `order_heads`, chosen on discovery; and what was measured on validation.

    `pairs` are those whose titles were shuffled, and the low ones beside them; `variants` are the
    names of the sweep's rows, the plain model first; `case` holds the logits of the article's case,
    straight and shuffled [variants, 2, outputs]. `second`: a model tuned with another seed, scored
    on discovery, where one was given.
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
    pairs: list[Pair]
    texts: Texts
    draws: Draws
    shuffles: int
    sensitivity: Sensitivity
    disturbed: Disturbed
    case: np.ndarray
    second: OtherSeed[OrderScores] | None = None

    def rows(self, variants: Iterable[Variant]) -> list[int]:
        """Where these variants stand in the sweep."""
        return [self.variants.index(variant.name) for variant in variants]


def study(context: Context) -> Study:
    """Run all of it; order heads are chosen on discovery, everything else is of validation."""
    scorer = context.model
    shape = scorer.checkpoint.shape
    labels = scorer.checkpoint.settings.labels
    found = {s: _scores(scorer, context, s) for s in ("discovery", "validation")}
    best = found["discovery"].best(max(CURVE))
    matching = chosen_heads(context, MATCHING_HEADS)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    made = _masks(context, best, shape, draws, matching)
    at = ends(context.validation, labels)
    shuffles = context.choose(QUICK_SHUFFLES, FULL_SHUFFLES)
    limit = context.choose(QUICK_QUERIES, None)
    pairs = sensitivity_pairs(context.validation, at, limit, context.seed)
    texts = Texts.of(pairs, at, draws=shuffles, seed=context.seed)
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
        pairs=pairs,
        texts=texts,
        draws=draws,
        shuffles=shuffles,
        sensitivity=Sensitivity(grades, texts, resamples=context.resamples, seed=context.seed),
        disturbed=_disturbed(context),
        case=logits[:, -2:],
        second=other_seed(context, lambda other: _scores(other, context, "discovery")),
    )


def _scores(scorer: Scorer, context: Context, split: str) -> OrderScores:
    pairs: list[Pair] = getattr(context, split)
    pairs = spread_over_queries(pairs, context.choose(QUICK_SCORED, len(pairs)), context.seed)
    with context.progress(2 * len(pairs), "texts") as shown:
        return order_scores(scorer, pairs, seed=context.seed, shown=shown)


def _masks(
    context: Context,
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

    def mean(heads: Iterable[Head]) -> Intervention:
        return HeadMask(tuple(heads), "mean", means)

    return masks(best, shape, draws, seed=context.seed, matching=matching, norms=norms, mean=mean)


def _sweep(context: Context, texts: Texts, variants: list[Variant]) -> np.ndarray:
    """Logits [variants, rows of `texts` and the case straight and shuffled, outputs]."""
    scorer = context.model
    pairs = [*texts.pairs, *_CASE]
    if len(variants) == 1:
        return stream(scorer, [(pair.query, pair.title) for pair in pairs], [])["logits"]
    folder = run_sweep(
        scorer,
        pairs,
        variants,
        context.work / SWEEP,
        pairs_ref=reference(context.files.pairs, pairs),
        resamples=0,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: {SWEEP}",
    )
    context.guards[SWEEP] = folder.record.guards
    return folder.logits


def _disturbed(context: Context) -> Disturbed:
    pairs, seed = context.validation, context.seed
    if not context.full:
        pairs = of_all_labels(pairs, QUICK_DISTURBED, seed)
    with context.progress(None, "texts") as shown:
        return disturbed(
            context.model,
            pairs,
            cutting(context),
            draws=context.choose(1, FULL_SHUFFLES),
            resamples=context.resamples,
            seed=seed,
            shown=shown,
        )
