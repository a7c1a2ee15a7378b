"""How much of the heads named for relations comes back: the best head of each, found again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.naming import VALIDATION, Elsewhere, Rule, known_stability, stability
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.heads import Excess, Scores
from qt_bert.probes.relations.study import Study
from qt_bert.results.probe import Stability
from qt_bert.stats.arrays import FloatArray, ratio


def stable_relations(study: Study, seed: int) -> dict[str, Stability]:
    """Of every set, beside validation; sentences and pairs are resampled together."""
    named = list(study.discovery.named)
    order = set(study.order_heads or ())
    words = [relation for relation in named if relation != ALIGNED]
    return known_stability(
        relations=_stability(study, named, seed),
        relations_words=_stability(study, words, seed),
        relations_in_order=_stability(study, named, seed, order),
    )


def _stability(
    study: Study, named: Sequence[str], seed: int, within: Collection[Head] | None = None
) -> Stability | None:
    """Of the heads named for some relations, or those of them that are `within`."""
    found = study.discovery
    chosen = {found.named[relation] for relation in named}
    chosen = chosen if within is None else chosen & set(within)
    if not chosen:
        return None
    size = study.shape.size
    beside = [relation for relation in named if relation in study.validation.excesses]
    return stability(
        best_heads(found, named, size, within),
        chosen,
        _units(found, named),
        pool=found.heads,
        elsewhere=[
            Elsewhere(
                VALIDATION,
                best_heads(study.validation, beside, size, within),
                _units(study.validation, beside),
            )
        ],
        seed=seed,
    )


def best_heads(
    scores: Scores,
    relations: Sequence[str],
    size: tuple[int, int],
    within: Collection[Head] | None = None,
) -> Rule:
    """The best head of each relation, scored by for how many it is the best; no other is scored.

    Units of relations that share none stand one after the other.
    """
    parts = _apart([scores.excesses[relation] for relation in relations])

    def score(weights: FloatArray) -> FloatArray:
        found = np.full((len(weights), *size), np.nan)
        start = 0
        for units, excesses in parts:
            mine = weights[:, start : start + units]
            start += units
            for one in excesses:
                excess = ratio(mine @ one.sums, (mine @ one.counts)[:, None])
                columns = np.argmax(np.nan_to_num(excess, nan=-np.inf), axis=1)
                for row, column in enumerate(columns):
                    head = scores.heads[column]
                    if within is None or head in within:
                        found[row, head.layer, head.head] = np.nansum(
                            [1.0, found[row, head.layer, head.head]]
                        )
        return found

    return score


def _units(scores: Scores, relations: Sequence[str]) -> int:
    return sum(units for units, _ in _apart([scores.excesses[name] for name in relations]))


def _apart(excesses: Sequence[Excess]) -> list[tuple[int, list[Excess]]]:
    """Relations of words, which share their sentences, and aligned spans, of pairs: units of each."""
    words = [one for one in excesses if one.relation != ALIGNED]
    spans = [one for one in excesses if one.relation == ALIGNED]
    return [(len(part[0].counts), part) for part in (words, spans) if part]
