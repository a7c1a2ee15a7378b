"""What is chosen on discovery: the head of the layer that matters most, and the heads that read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.probes.common.averages import means
from qt_bert.probes.common.naming import ComesBack, comes_back, name_heads, one_sided_p
from qt_bert.probes.common.streams import stream
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.readers.cls_row import FOCUS, QUANTITIES

LEAST_FOCUS = 0.10
"""From this focus on, of either sign, a head is named."""
LOSS = "log_loss"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The head of the layer whose absence costs most.

    `costs` [heads] are the changes for the worse of `metric`: the loss on the label, or what a
    model without one is judged by. No head, and no metric, where neither is defined. `interval`
    is that of the head's cost.
    """

    head: Head | None
    metric: str | None
    costs: FloatArray
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
    if not defined:
        return Chosen(None, None, np.full(len(heads), np.nan))
    metric, sign = defined[0], 1 if defined[0] == LOSS else -1
    changes = [effects.change(row, metric) for row in range(1, 1 + len(heads))]
    costs = sign * np.array(changes, np.float64)
    worst = int(np.nanargmax(costs))
    ends = effects.interval(sign * effects.resampled(1 + worst, metric))
    return Chosen(heads[worst], metric, costs, ends)


@dataclass(frozen=True, eq=False)
class Readers:
    """Heads of all layers whose [CLS] favours the shared terms (`focused`), or avoids them (`averted`).

    `focus`, `p` and `q` [layers, heads] are those of discovery; q is over heads and both signs.
    `back` says of either set how much of it comes back.
    """

    focus: FloatArray
    p: FloatArray
    q: FloatArray
    focused: list[Head]
    averted: list[Head]
    back: dict[str, ComesBack | None]


def name_readers(rows: FloatArray, seed: int) -> Readers:
    """Name heads of enough focus of either sign, from rows [queries, layers, heads, quantities]."""
    focus = rows[..., FOCUS]
    mean = means(focus)
    weight = means(rows[..., QUANTITIES.index("matched")] + rows[..., QUANTITIES.index("other")])
    p = np.stack([one_sided_p(focus), one_sided_p(-focus)], axis=-1)
    named = name_heads(np.abs(mean), p, weight, least=LEAST_FOCUS)
    focused, averted = ([h for h in named.heads() if sign * mean[h] > 0] for sign in (1, -1))
    back = {
        "focused": comes_back(focus, focused, seed=seed),
        "averted": comes_back(-focus, averted, seed=seed),
    }
    return Readers(mean, named.p, named.q, focused, averted, back)
