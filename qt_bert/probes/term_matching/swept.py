"""The validation pairs on which heads are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from qt_bert.pairs import Pair
from qt_bert.pairs.grades import GradeSet
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.probes.common.sample import for_model
from qt_bert.probes.context import ProbeContext

QUICK_PAIRS = 48


def swept_pairs(context: ProbeContext) -> list[Pair]:
    """All of them under --full, else QUICK_PAIRS of as many queries, as many of each label.

    A one-logit model is judged by the order of a query's titles, so it gets whole queries.
    """
    if context.full or context.model.checkpoint.settings.labels.logits == 1:
        return for_model(context.validation, QUICK_PAIRS, context)
    return balanced(context.validation, QUICK_PAIRS, context.seed)


def balanced(pairs: Sequence[Pair], limit: int, seed: int) -> list[Pair]:
    """`limit` pairs of as many queries as there can be, the labels taking turns, in file order.

    A label that runs out leaves its turns to the others. Raises ArgumentError for a limit below 1.
    """
    queries = len({pair.query for pair in pairs})
    by_label: dict[GradeSet, list[Pair]] = {}
    for pair in spread_over_queries(pairs, max(limit, queries), seed):
        by_label.setdefault(pair.grades or (), []).append(pair)
    sizes = _turns({label: len(by_label[label]) for label in sorted(by_label)}, limit)
    drawn = [
        pair
        for label, size in sizes.items()
        for pair in spread_over_queries(by_label[label], size, seed)
    ]
    return sorted(drawn, key=lambda pair: pair.line)


def _turns(there: dict[GradeSet, int], limit: int) -> Counter[GradeSet]:
    """How many of each label come when the labels take turns until `limit` are drawn."""
    taken: Counter[GradeSet] = Counter()
    while taken.total() < min(limit, sum(there.values())):
        for label, size in there.items():
            if taken[label] < size and taken.total() < limit:
                taken[label] += 1
    return taken
