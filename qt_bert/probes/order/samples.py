"""Which pairs of a split are looked at: few pairs of many queries, for tests and intervals count queries."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.probes.order.grades import Ends


def of_all_labels(pairs: Sequence[Pair], limit: int, seed: int) -> list[Pair]:
    """About as many pairs of each label, `limit` in all, of other queries where there are enough."""
    labels = sorted({pair.grades for pair in pairs if pair.grades})
    found: list[Pair] = []
    for number, grades in enumerate(labels):
        share = (limit - len(found)) // (len(labels) - number)
        seen = {pair.query for pair in found}
        own = [pair for pair in pairs if pair.grades == grades]
        fresh = [pair for pair in own if pair.query not in seen]
        found += spread_over_queries(fresh if len(fresh) >= share else own, max(1, share), seed)
    return found


def sensitivity_pairs(pairs: Sequence[Pair], at: Ends, limit: int | None, seed: int) -> list[Pair]:
    """High and low pairs, all of them, or one of each for the same `limit` queries.

    Where no query has both, high and low pairs are of `limit` queries each.
    """
    high, low = ([p for p in pairs if p.grades in grades] for grades in (at.high, at.low))
    if limit is None:
        return high + low
    both = {pair.query for pair in high} & {pair.query for pair in low}
    if both:
        first = spread_over_queries([p for p in high if p.query in both], limit, seed)
        both = {pair.query for pair in first}
        return first + spread_over_queries([p for p in low if p.query in both], limit, seed)
    return spread_over_queries(high, limit, seed) + spread_over_queries(low, limit, seed)
