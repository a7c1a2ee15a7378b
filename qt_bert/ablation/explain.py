"""Which heads made one pair's grade: each left out alone, or put back where a term was filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence, distance
from qt_bert.ablation.engine import batch_tokens, sweep
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import Variant, with_plain
from qt_bert.ablation.masks import zeroed
from qt_bert.ablation.patches import FAMILY, Patch, donor_batches, single_patches
from qt_bert.codec import encode
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.heads import Shape
from qt_bert.results.evaluation import CarryingHead, Reason, TermChange
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import Explanation, TermEffect, explain_pair, fill, filler_of
from qt_bert.scoring.judge import Outputs, ranking_scores, read_outputs
from qt_bert.stats.arrays import FloatArray

BFLOAT16_BOUND = 0.05
"""How far bfloat16 may round logits apart, relative to their size."""


@dataclass(frozen=True)
class HeadEffect:
    """What leaving one head out does: `change` of the expected grade (or the one logit)."""

    head: str
    score: float
    change: float


def explain_heads(query: str, title: str, scorer: Scorer) -> list[HeadEffect]:
    """Every head of the model left out alone on (query, title); the largest changes first.

    The changes are no shares of the grade: heads stand in for each other, so they do not add up.
    The checks come first. Raises ArgumentError for a scorer that leaves heads out already, and
    EquivalenceError where a check fails.
    """
    if scorer.left_out:
        raise ArgumentError("heads are left out one by one of the whole model alone")
    checkpoint, scorer = scorer.checkpoint, scorer.fresh()
    variants = with_plain(single(checkpoint.shape, zeroed))
    encoded = scorer.tokenizer.encode([(query, title)], offsets=False)
    check_equivalence(checkpoint, scorer.encoder, variants, encoded)
    (swept,) = sweep(scorer.encoder, scorer.batches([(query, title)], batch_tokens()), variants)
    return head_effects(variants, read_outputs(swept.logits[:, 0], checkpoint.settings.labels))


def head_effects(variants: Sequence[Variant], outputs: Outputs) -> list[HeadEffect]:
    """One pair's `outputs` under each of `variants`, `none` first; the largest changes first."""
    scores = outputs.ranking_score
    effects = [
        HeadEffect(variant.name, float(score), float(score - scores[0]))
        for variant, score in zip(variants[1:], scores[1:], strict=True)
    ]
    return sorted(effects, key=lambda effect: -abs(effect.change))


@dataclass(frozen=True)
class HeadRestores:
    """What one head's output of the pair as it is brings back in the pair with a term filled.

    `score` is that of the filled pair with it; `share` of the whole change came back.
    """

    head: str
    score: float
    restored: float
    share: float


@dataclass(frozen=True)
class Restoring:
    """Which heads carry a term: `heads`, the largest share first; `all_heads` together restore 1.

    Less where the classifier reads the term's own tokens, too: the last one, or the mean of all.
    """

    term: TermEffect
    heads: list[HeadRestores]
    all_heads: float


def restoring_heads(
    query: str,
    title: str,
    scorer: Scorer,
    term: TermEffect,
    guards: Mapping[str, Any] | None = None,
) -> Restoring:
    """Patch every head's z of the pair as it is, one head at a time, into the pair with
    `term` filled; all heads together must restore the whole, unless what is read is filled itself.

    Shares do not add up: heads read each other. The checks come first; `guards` are the figures of
    those that ran before, as `check_patches` gives them. Raises ArgumentError for a term that does
    not move the score or has no tokens, and for a scorer that leaves heads out; EquivalenceError
    where a check fails.
    """
    if scorer.left_out:
        raise ArgumentError("heads are patched one by one in the whole model alone")
    couple = clean_and_corrupted(query, title, scorer, term)
    figures = check_patches(scorer, couple) if guards is None else guards
    checkpoint, variants = scorer.checkpoint, patches(scorer.checkpoint.shape)
    (batch,) = donor_batches(couple, batch_tokens(), pad=scorer.pad)
    (swept,) = sweep(scorer.encoder, [batch], variants)
    logits = swept.logits[:, np.argsort(batch.rows)]  # [V, 2, K]: as it is, and filled
    # z of all heads in all layers makes the pair as it is where the token that is read is the same in
    # both: it reads nothing else.
    read = {text.input_ids[text.at] for text in couple}
    off = distance(logits[-1, 1], logits[0, 0])
    bound = figures["bound"] if checkpoint.dtype == "float32" else BFLOAT16_BOUND
    if len(read) == 1 and scorer.encoder.reads != "mean" and not off <= bound:
        raise EquivalenceError(
            f"with z of all heads patched the logits differ from the whole pair's by {off:.2g}, "
            f"more than {bound:.2g}; no share of this run could be trusted"
        )
    scores = ranking_scores(logits, checkpoint.settings.labels)
    return restored(variants, scores[:, 1], float(scores[0, 0]), term)


def check_patches(scorer: Scorer, couples: Sequence[EncodedPair]) -> dict[str, Any]:
    """Check the patches of single heads on clean and corrupted pairs, in turn; gives the figures."""
    variants = patches(scorer.checkpoint.shape)
    return check_equivalence(scorer.checkpoint, scorer.encoder, variants, couples, donors=True)


def clean_and_corrupted(
    query: str, title: str, scorer: Scorer, term: TermEffect
) -> list[EncodedPair]:
    """The pair, and it with `term` filled. Raises ArgumentError where that moves no score."""
    (whole,) = scorer.tokenizer.encode([(query, title)])
    filled = fill(whole, term.side, term.start, term.end, filler_of(scorer.checkpoint))
    if filled is None or not term.moved:
        raise ArgumentError(f"{term.term!r} does not move the grade, so no head brings it back")
    return [whole, filled]


def patches(shape: Shape) -> list[Variant]:
    """The plain model, each head patched alone (`patch:L3H7`), and all of them (`patch:all`)."""
    together = Variant("patch:all", (Patch(tuple(shape.all_heads)),), FAMILY)
    return with_plain([*single_patches(shape), together])


def restored(
    variants: Sequence[Variant], scores: FloatArray, with_term: float, term: TermEffect
) -> Restoring:
    """The filled pair's `scores` under `patches`, beside the score `with_term` of the pair as it is."""
    gap, moves = with_term - scores[0], scores - scores[0]
    heads = [
        HeadRestores(str(variant.heads[0]), float(score), float(move), float(move / gap))
        for variant, score, move in zip(variants[1:-1], scores[1:-1], moves[1:-1], strict=True)
    ]
    heads.sort(key=lambda head: -head.share)
    return Restoring(term, heads, float(moves[-1] / gap))


# The reasons of an evaluation's examples: what each term changes, and which heads restore the largest change.


EXPLAINED, WITH_HEADS = 12, 3
"""Examples whose terms are explained, and how many of them with their heads, each a sweep of all."""

HEADS = 3


def with_reasons(
    examples: Sequence[dict[str, Any]], scorer: Scorer, segmenter: Segmenter, guards: dict[str, Any]
) -> list[dict[str, Any]]:
    """The first examples with a `reason` each, then the others; fills `guards` with figures."""
    scorer = scorer.fresh()  # the texts that it cuts were counted before
    explained = [
        explain_pair(example["query"], example["title"], scorer, segmenter)
        for example in examples[:EXPLAINED]
    ]
    heads = _restoring(explained, scorer, guards)
    reasons = [
        {**example, "reason": encode(_reason(explanation, heads.get(place, ())))}
        for place, (example, explanation) in enumerate(zip(examples, explained, strict=False))
    ]
    return [*reasons, *examples[EXPLAINED:]]


def _restoring(
    explained: Sequence[Explanation], scorer: Scorer, guards: dict[str, Any]
) -> dict[int, tuple[CarryingHead, ...]]:
    """The heads that restore most of the first examples that some term moves, by their place."""
    moved = [
        (place, explanation, term)
        for place, explanation in enumerate(explained)
        if (term := explanation.most_telling) is not None
    ][:WITH_HEADS]
    if not moved:
        return {}
    couples = [
        clean_and_corrupted(explanation.query, explanation.title, scorer, term)
        for _, explanation, term in moved
    ]
    figures = check_patches(scorer, [text for couple in couples for text in couple])
    guards["examples"] = figures
    return {
        place: tuple(
            CarryingHead(head=head.head, share=head.share)
            for head in restoring_heads(
                explanation.query, explanation.title, scorer, term, figures
            ).heads[:HEADS]
        )
        for place, explanation, term in moved
    }


def _reason(explanation: Explanation, heads: tuple[CarryingHead, ...]) -> Reason:
    telling = explanation.most_telling
    return Reason(
        filler=explanation.filler,
        terms=tuple(
            TermChange(side=term.side, term=term.term, change=term.change, moved=term.moved)
            for term in explanation.terms
        ),
        told_by=None if telling is None else explanation.terms.index(telling),
        carried_by=heads,
    )
