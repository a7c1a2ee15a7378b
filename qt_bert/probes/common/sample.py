"""The sample that a quick run takes of a split."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.pairs import Pair
from qt_bert.pairs.sample import sample_queries, spread_over_queries
from qt_bert.probes.context import ProbeContext


def for_model(pairs: Sequence[Pair], limit: int, context: ProbeContext) -> list[Pair]:
    """About `limit` pairs of as many queries as the model's metric allows; all under --full.

    A one-logit model is judged by the order of a query's titles, so it gets whole queries.
    """
    if context.full:
        return list(pairs)
    one_logit = context.model.checkpoint.settings.labels.logits == 1
    return (sample_queries if one_logit else spread_over_queries)(pairs, limit, context.seed)
