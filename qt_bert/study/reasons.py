"""Why the examples of an evaluation have their grades: what moves them, and which heads carry it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qt_bert.results.codec import encode
from qt_bert.results.evaluation import CarryingHead, Reason, TermChange

if TYPE_CHECKING:
    from qt_bert.pairs.segmenters import Segmenter
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.explain import Explanation

EXPLAINED, WITH_HEADS = 12, 3
"""Examples whose terms are explained, and how many of them with their heads, each a sweep of all."""

HEADS = 3


def with_reasons(
    examples: Sequence[dict[str, Any]],
    scorer: Scorer,
    segmenter: Segmenter,
    guards: dict[str, Any],
) -> list[dict[str, Any]]:
    """The first examples with a `reason` each; the others as they are.

    The figures of the guards of what is patched go into `guards`.
    """
    from qt_bert.scoring.explain import explain_pair

    scorer = scorer.fresh()  # what it has to cut was counted before
    explained = [
        explain_pair(one["query"], one["title"], scorer, segmenter) for one in examples[:EXPLAINED]
    ]
    heads = _heads(explained, scorer, guards) if scorer.checkpoint.has_heads else {}
    reasons = [
        {**example, "reason": encode(_reason(found, heads.get(place, ())))}
        for place, (example, found) in enumerate(zip(examples, explained, strict=False))
    ]
    return [*reasons, *examples[EXPLAINED:]]


def _heads(
    explained: Sequence[Explanation], scorer: Scorer, guards: dict[str, Any]
) -> dict[int, tuple[CarryingHead, ...]]:
    """The heads that restore most of the first examples that some term moves, by their place."""
    from qt_bert.ablation.explain_heads import guard_patches, restoring_heads, twins_of

    told = [(place, one, one.most_telling) for place, one in enumerate(explained)]
    asked = [(place, one, term) for place, one, term in told if term is not None][:WITH_HEADS]
    if not asked:
        return {}
    couples = [twins_of(one.query, one.title, scorer, term) for _, one, term in asked]
    figures = guard_patches(scorer, [text for couple in couples for text in couple])
    guards["examples"] = figures
    found = {}
    for place, one, term in asked:
        carried = restoring_heads(one.query, one.title, scorer, term, figures).heads[:HEADS]
        found[place] = tuple(CarryingHead(head=head.head, share=head.share) for head in carried)
    return found


def _reason(found: Explanation, heads: tuple[CarryingHead, ...]) -> Reason:
    telling = found.most_telling
    return Reason(
        filler=found.filler,
        terms=tuple(
            TermChange(side=one.side, term=one.term, change=one.change, moved=one.moved)
            for one in found.terms
        ),
        told_by=None if telling is None else found.terms.index(telling),
        carried_by=heads,
    )
