"""How much of the sets of readers comes back."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.focus.choosing import by_focus
from qt_bert.probes.focus.study import Study
from qt_bert.probes.matching_scores import discovery_scores, stable_matching
from qt_bert.probes.naming import VALIDATION, Elsewhere, known_stability, stability
from qt_bert.results.probe import Stability


def stable_readers(study: Study, context: Context) -> dict[str, Stability]:
    """Of every set: the reader by its cost, the others of [CLS] by their focus, beside validation."""
    chosen, seed, heads = study.chosen, context.seed, study.shape.all_heads

    def of(named: Sequence[Head], sign: int) -> Stability | None:
        beside = Elsewhere(VALIDATION, by_focus(study.plain, sign), len(study.plain))
        rule, n_queries = by_focus(study.plain_found, sign), len(study.plain_found)
        return stability(rule, named, n_queries, pool=heads, elsewhere=[beside], seed=seed)

    reader = None
    if chosen.head is not None and chosen.rule is not None:
        reader = stability(chosen.rule, [chosen.head], chosen.n_queries, seed=seed)
    below = [head for head in heads if head.layer < study.layer]
    return known_stability(
        reader=reader,
        focused=of(study.readers.focused, 1),
        averted=of(study.readers.averted, -1),
        matching_below=stable_matching(
            discovery_scores(context) if study.matching else None,
            study.matching,
            within=below,
            seed=seed,
        ),
    )
