"""What is chosen on discovery: the head of the layer that matters most, and the heads that read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.focus.cls_row import FOCUS, QUANTITIES, WITHIN
from qt_bert.probes.naming import Rule, by_mean, means, name_heads, one_sided_p
from qt_bert.probes.streams import stream
from qt_bert.stats.arrays import FloatArray

LEAST_FOCUS = 0.10
"""From this focus on, of either sign, a head is named."""
LOSS = "log_loss"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The head of the layer whose absence costs most.

    `costs` are the changes for the worse of `metric`, by head: the loss on the label (−log p), or
    what a model without one is judged by. No head where no absence is for the worse; no metric
    either where neither is defined. `interval` is that of the head's cost, as of a head named
    beforehand: this one is the largest of several, so the cost on other queries may well be less.
    `rule` gives the costs for any weights of the `n_queries` queries.
    """

    head: Head | None
    metric: str | None
    costs: Mapping[Head, float]
    interval: tuple[float, float] | None = None
    rule: Rule | None = None
    n_queries: int = 0


def choose(context: Context, pairs: Sequence[Pair], alone: Sequence[Variant]) -> Chosen:
    """Leave out each head of a layer, the variants `alone`, over `pairs` of discovery."""
    scorer, heads = context.model, [variant.heads[0] for variant in alone]
    texts = [(pair.query, pair.title) for pair in pairs]
    with context.progress((1 + len(alone)) * len(pairs), "runs") as shown:
        logits = stream(scorer, texts, (), [NONE, *alone], shown=shown)["logits"]
    effects = Effects(
        logits,
        pairs,
        scorer.checkpoint.settings.labels,
        resamples=context.resamples,
        seed=context.seed,
    )
    defined = [name for name in (LOSS, *effects.tested) if effects.base(name) is not None]
    if not defined or not heads:  # a layer may have lost all its heads
        return Chosen(None, None, dict.fromkeys(heads, np.nan))
    metric, sign = defined[0], 1 if defined[0] == LOSS else -1
    changes = [effects.change(row, metric) for row in range(1, 1 + len(heads))]
    values = sign * np.array(changes, np.float64)
    costs = dict(zip(heads, map(float, values), strict=True))
    worst = int(np.argmax(np.nan_to_num(values, nan=-np.inf)))
    if not values[worst] > 0:
        return Chosen(None, metric, costs)
    ends = effects.interval(sign * effects.resampled(1 + worst, metric))
    rule = _costs(effects, metric, sign, heads, scorer.checkpoint.shape.size)
    return Chosen(heads[worst], metric, costs, ends, rule, effects.n_queries)


def _costs(
    effects: Effects, metric: str, sign: int, heads: Sequence[Head], size: tuple[int, int]
) -> Rule:
    """The costs of `heads`, the rows of `effects` after the plain one, for any query weights."""

    def score(weights: FloatArray) -> FloatArray:
        found = np.full((len(weights), *size), np.nan)
        for row, head in enumerate(heads, 1):
            found[:, head.layer, head.head] = sign * effects.under(weights, row, metric)
        return found

    return score


@dataclass(frozen=True, eq=False)
class Readers:
    """Heads of all layers whose [CLS] favours the shared terms (`focused`), or avoids them (`averted`).

    `focus`, `within`, `p` and `q` [layers, heads] are those of discovery; p is the larger of the two
    quantities', q is over heads and both signs.
    """

    focus: FloatArray
    within: FloatArray
    p: FloatArray
    q: FloatArray
    focused: list[Head]
    averted: list[Head]


def name_readers(rows: FloatArray) -> Readers:
    """Name heads from rows [queries, layers, heads, quantities].

    Both the focus and that within each text must be large enough, significant and of one sign: a
    head that likes the query or the title as a whole is no reader of the terms.
    """
    both = np.stack([rows[..., FOCUS], rows[..., WITHIN]])
    focus, within = means(both[0]), means(both[1])
    score = _smaller(focus, within)
    weight = means(rows[..., QUANTITIES.index("matched")] + rows[..., QUANTITIES.index("other")])
    larger_p = [np.maximum(*(one_sided_p(sign * one) for one in both)) for sign in (1, -1)]
    named = name_heads(np.abs(score), np.stack(larger_p, axis=-1), weight, least=LEAST_FOCUS)
    focused, averted = ([h for h in named.heads() if sign * score[h] > 0] for sign in (1, -1))
    return Readers(focus, within, named.p, named.q, focused, averted)


def by_focus(rows: FloatArray, sign: int) -> Rule:
    """The smaller of the two means of rows [queries, layers, heads, quantities], times `sign`."""
    focus, within = by_mean(rows[..., FOCUS]), by_mean(rows[..., WITHIN])
    return lambda weights: sign * _smaller(focus(weights), within(weights))


def _smaller(focus: FloatArray, within: FloatArray) -> FloatArray:
    """The one nearer to 0, with its sign; 0 where the signs differ."""
    nearer = np.where(np.abs(focus) < np.abs(within), focus, within)
    return np.asarray(np.where(focus * within > 0, nearer, 0.0))
