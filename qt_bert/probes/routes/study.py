"""What the study of routes runs: the matching heads and their controls, on every route into the reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qt_bert.ablation.interventions import MeanZ
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import reference_means
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.controls import contest
from qt_bert.probes.routes.asked import Asked
from qt_bert.probes.routes.guard import guard
from qt_bert.probes.routes.passes import WAYS, Changes, Sender, Way, changes
from qt_bert.probes.routes.shares import Shares

QUICK_DRAWS, FULL_DRAWS = 20, 199
SET = "matching"
CLAIMED: tuple[Way, ...] = ("qk",)
"""What the claim asks of the controls."""


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of.

    `reader`: the set as the first sender and `draws` layer-matched ones behind it, into the reader
    alone; in quick these take its query and key together, the one way that the claim asks for, and
    what they change with nothing held is not known. Under --full `layer`: the set and each of its
    heads into every receiver; and `otherwise`: the set into the reader with more held
    (`feed_forward`), or with mean head outputs for zeros (`mean`).
    """

    asked: Asked
    draws: int
    reader: Shares
    layer: Shares | None = None
    otherwise: Mapping[str, Shares] = field(default_factory=dict)


def study(asked: Asked, context: Context) -> Study:
    """Check the loop on these paths, then run them."""
    heads, into = asked.senders.heads, asked.receivers
    whole = Sender(SET, HeadMask(heads))
    drawn = _controls(heads, context)
    means = reference_means(context.model, context.reference_pairs) if context.full else None
    guard(context, whole.mask, asked.reader, asked.pairs)
    reader = _shares(changes(context, asked.pairs, [whole, *drawn], [asked.reader]), context)
    if means is None:
        return Study(asked, len(drawn), reader)
    alone = [Sender(str(head), HeadMask((head,))) for head in heads]
    layer = _shares(changes(context, asked.pairs, [whole, *alone], into), context)
    return Study(asked, len(drawn), reader, layer, _otherwise(asked, means, context))


def _controls(heads: tuple[Head, ...], context: Context) -> list[Sender]:
    """Layer-matched sets outside the set; none where a layer has too few heads outside.

    A path ends in one layer, while heads left out with nothing held change every layer above them:
    in quick, without these, a set costs a third.
    """
    made = contest(
        SET,
        heads,
        context.model.checkpoint.shape,
        matched=context.choose(QUICK_DRAWS, FULL_DRAWS),
        free=0,
        seed=context.seed,
    )
    ways = context.choose(CLAIMED, WAYS)
    return [Sender(one.name, HeadMask(one.heads), ways) for one in made.matched]


def _otherwise(asked: Asked, means: MeanZ, context: Context) -> dict[str, Shares]:
    heads, into = asked.senders.heads, [asked.reader]
    zeros, mean = Sender(SET, HeadMask(heads)), Sender(SET, HeadMask(heads, "mean", means))
    held = changes(context, asked.pairs, [zeros], into, "z and feed-forward")
    return {
        "feed_forward": _shares(held, context),
        "mean": _shares(changes(context, asked.pairs, [mean], into), context),
    }


def _shares(found: Changes, context: Context) -> Shares:
    return Shares(found, context.resamples, context.seed)
