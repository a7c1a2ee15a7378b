"""Scoring heads for term matching: on any model and pairs, and on the discovery pairs of a probe."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from qt_bert.encoder.heads import Head
from qt_bert.pairs import Pair
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.term_matching.head_scores import Scores
from qt_bert.probes.term_matching.replacement import DRAWS
from qt_bert.probes.term_matching.sums import sums_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

K = 5
"""The article's number of heads."""
QUICK_PAIRS = 80
KEPT = 4


def score_heads(
    scorer: Scorer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    queries: Iterable[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    shown: Progress = silent,
) -> Scores:
    """Score every head of a model on `pairs`; replacements are drawn from `queries`.

    `shown` counts texts run, `draws` + 1 a pair at most. Where no pair has a term to match and a
    query to replace its own, every score is NaN and no head is among the best.
    """
    sums, sample = sums_of(scorer, pairs, segmenter, queries, draws=draws, seed=seed, shown=shown)
    return Scores(sums, sample)


def discovery_scores(context: ProbeContext) -> Scores:
    """The scores that heads are chosen by; made once for a model, pairs, profile and seed."""
    sample = scored_sample(context, context.discovery)
    key = _key(context, sample)
    if key not in _kept:
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)))
        _kept[key] = scores_on(context, sample)
    return _kept[key]


def scores_on(context: ProbeContext, pairs: Sequence[Pair]) -> Scores:
    """Score the context's model on `pairs`, replacements drawn from both splits."""
    return _scores(context.model, context, pairs)


def scores_by(scorer: Scorer, context: ProbeContext) -> Scores:
    """Score another model on the discovery pairs that heads are chosen on."""
    return _scores(scorer, context, scored_sample(context, context.discovery))


def _scores(scorer: Scorer, context: ProbeContext, pairs: Sequence[Pair]) -> Scores:
    with context.progress(None, "texts") as shown:
        return score_heads(
            scorer,
            pairs,
            context.segmenter,
            every_query(context),
            seed=context.seed,
            shown=shown,
        )


def scored_sample(context: ProbeContext, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of a split that heads are scored on, by profile."""
    return spread_over_queries(pairs, context.choose(QUICK_PAIRS, len(pairs)), context.seed)


def every_query(context: ProbeContext) -> set[str]:
    """The queries that replacements are drawn from."""
    return {pair.query for pair in (*context.discovery, *context.validation)}


def chosen_heads(
    context: ProbeContext, k: int = K, within: Iterable[Head] | None = None
) -> list[Head]:
    """The k best matching heads by score on discovery, best first, all of them or those `within`.

    At most a quarter of the heads there, so that there are others to compare with, and at least
    one; fewer where fewer have a score.
    """
    scores = discovery_scores(context)
    pool = None if within is None else set(within)
    size = scores.score.size if pool is None else len(pool)
    return scores.best(min(k, max(1, size // 4)), pool)


_kept: dict[tuple[str, ...], Scores] = {}


def _key(context: ProbeContext, sample: Sequence[Pair]) -> tuple[str, ...]:
    digest = hashlib.sha256()
    for text in (*(f"{p.query}\t{p.title}" for p in sample), *sorted(every_query(context))):
        digest.update(f"{text}\n".encode())
    scorer = context.model
    return (
        scorer.checkpoint.sha256,
        scorer.checkpoint.dtype,
        str(scorer.tokenizer.max_length),
        f"{context.segmenter_name} {context.userdict}",
        str(context.seed),
        digest.hexdigest(),
    )
