"""What is chosen on discovery: the head of the layer that matters most, and the heads that read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray, ratio
from qt_bert.pairs import Pair
from qt_bert.probes.common.averages import means
from qt_bert.probes.common.naming import (
    Choose,
    ComesBack,
    comes_back,
    name_heads,
    one_sided_p,
    ranked,
)
from qt_bert.probes.common.streams import stream
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.readers.cls_row import FOCUS, QUANTITIES, WITHIN

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
    """

    head: Head | None
    metric: str | None
    costs: Mapping[Head, float]
    interval: tuple[float, float] | None = None


def choose(context: ProbeContext, pairs: Sequence[Pair], alone: Sequence[Variant]) -> Chosen:
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
    return Chosen(heads[worst], metric, costs, ends)


@dataclass(frozen=True, eq=False)
class Readers:
    """Heads of all layers whose [CLS] favours the shared terms (`focused`), or avoids them (`averted`).

    `focus`, `within`, `p` and `q` [layers, heads] are those of discovery; p is the larger of the two
    quantities', q is over heads and both signs. `back` says of either set how much of it comes back
    by the smaller of its two means.
    """

    focus: FloatArray
    within: FloatArray
    p: FloatArray
    q: FloatArray
    focused: list[Head]
    averted: list[Head]
    back: dict[str, ComesBack | None]


def name_readers(rows: FloatArray, seed: int) -> Readers:
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
    back = {
        name: comes_back(_by_smaller(both, sign), heads, len(rows), score.size, seed=seed)
        for name, heads, sign in (("focused", focused, 1), ("averted", averted, -1))
    }
    return Readers(focus, within, named.p, named.q, focused, averted, back)


def _smaller(focus: FloatArray, within: FloatArray) -> FloatArray:
    """The one nearer to 0, with its sign; 0 where the signs differ."""
    nearer = np.where(np.abs(focus) < np.abs(within), focus, within)
    return np.asarray(np.where(focus * within > 0, nearer, 0.0))


def _by_smaller(both: FloatArray, sign: int) -> Choose:
    """Heads by the smaller of their two means, `both` [2, queries, layers, heads], of one sign."""
    known, filled = np.isfinite(both), np.nan_to_num(both)

    def choose(weights: FloatArray) -> list[Head]:
        sums, counts = (np.einsum("q,kqlh->klh", weights, one) for one in (filled, known))
        return ranked(sign * _smaller(*ratio(sums, counts)))

    return choose
