"""What another order of the words does to a grade, with and without the heads that carry order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.order_sets import HeadSet
from qt_bert.inspection.views.phrases import cut_notes
from qt_bert.inspection.views.random_heads import mask_of, random_heads
from qt_bert.inspection.views.shuffling import Shuffled
from qt_bert.probes.word_order.figures import shares
from qt_bert.probes.word_order.grades import expected_grades
from qt_bert.results import Text


class Range(NamedTuple):
    """A mean over draws, their least and their largest; all three the same for a single value."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> Range:
        """Over all of `values`."""
        return cls(float(values.mean()), float(values.min()), float(values.max()))


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run the model on both orders: the heads left out, `size` of them, and what it gives.

    `heads` are empty where they are random, in `draws` sets. `before` and `after` are expected grades (or levels, or scores), `change` their difference;
    `shares_…` the probability of each output (the score of a model of one logit).
    `grades` are the predicted grades, None for a model of one logit and for random sets.
    """

    name: Text
    heads: tuple[Head, ...] = ()
    size: int = 0
    draws: int = 1
    before: Range
    after: Range
    change: Range
    shares_before: tuple[Range, ...]
    shares_after: tuple[Range, ...]
    grades: tuple[str, str] | None = None

    @property
    def random(self) -> bool:
        """Whether random heads are left out."""
        return self.size > len(self.heads)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A pair in both orders under the plain model (first), each set of heads and random sets.

    `without_random` are the sets with too few other heads in their layers for a random one;
    `notes` say what of the texts the model does not read.
    """

    labels: ModelLabels
    pair: Shuffled
    ways: tuple[Way, ...]
    without_random: tuple[Text, ...]
    notes: tuple[Text, ...]


def order(
    inspected: Inspected, pair: Shuffled, sets: Sequence[HeadSet], *, mode: str, seed: int
) -> Order:
    """Grade both orders plainly, without each set, and without layer-matched random sets of each.

    Kept for the next click. Raises ArgumentError for heads that the model lacks.
    """
    key = (inspected.key, pair, tuple(sets), mode, seed)
    return _kept.get(key, lambda: _order(inspected, pair, sets, mode, seed))


_kept = Kept()


def _order(
    inspected: Inspected, pair: Shuffled, sets: Sequence[HeadSet], mode: str, seed: int
) -> Order:
    ways = [_graded(inspected, pair, HeadSet(Text("不去掉头", "no heads out"), ()), mode)]
    without: list[Text] = []
    for one in sets:
        ways.append(_graded(inspected, pair, one, mode))
        random = _random(inspected, pair, one, mode, seed)
        if random is None:
            without.append(one.name)
        else:
            ways.append(random)
    encoded = [inspected.encode(*texts) for texts in (pair.before, pair.after)]
    return Order(
        labels=inspected.labels,
        pair=pair,
        ways=tuple(ways),
        without_random=tuple(without),
        notes=tuple(dict.fromkeys(note for one in encoded for note in cut_notes(one))),
    )


def _graded(inspected: Inspected, pair: Shuffled, one: HeadSet, mode: str) -> Way:
    """By the very computation of `qt-bert explain --heads-out`."""
    encoded = [inspected.encode(*texts) for texts in (pair.before, pair.after)]
    found = [inspected.graded(texts, one.heads, mode) for texts in encoded]
    before, after = (Range.of(outputs.ranking_score) for outputs in found)
    change = after.mean - before.mean
    both = [
        outputs.ranking_score[:, None] if outputs.probabilities is None else outputs.probabilities
        for outputs in found
    ]
    grades = [outputs.predicted[0] for outputs in found if outputs.predicted]
    return Way(
        name=one.name,
        heads=one.heads,
        size=len(one.heads),
        before=before,
        after=after,
        change=Range(change, change, change),
        shares_before=_ranges(both[0]),
        shares_after=_ranges(both[1]),
        grades=(grades[0], grades[1]) if grades else None,
    )


def _random(
    inspected: Inspected, pair: Shuffled, like: HeadSet, mode: str, seed: int
) -> Way | None:
    """As many heads in each layer, outside the set; None where a layer has too few others."""
    variants = random_heads(inspected, like.heads, mode, seed)
    if not variants:
        return None
    logits = inspected.run([pair.before, pair.after], variants).logits
    grades = expected_grades(logits, inspected.labels)
    before, after = (shares(logits[:, at], inspected.labels) for at in (0, 1))
    return Way(
        name=Text(
            f"随机头（各层与{like.name.zh}同数）",
            f"random heads (as many a layer as {like.name.en})",
        ),
        size=len(like.heads),
        draws=len(variants),
        before=Range.of(grades[:, 0]),
        after=Range.of(grades[:, 1]),
        change=Range.of(grades[:, 1] - grades[:, 0]),
        shares_before=_ranges(before),
        shares_after=_ranges(after),
    )


def _ranges(values: FloatArray) -> tuple[Range, ...]:
    return tuple(Range.of(column) for column in np.asarray(values, np.float64).T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """The change of the expected grade over several draws of the other order.

    `names` are the ways to run the model, the plain one first; `changes` [names, draws]; `different`
    counts the different texts among the draws.
    """

    names: tuple[Text, ...]
    changes: FloatArray
    different: int


def spread(
    inspected: Inspected, drawn: Sequence[Shuffled], sets: Sequence[HeadSet], *, mode: str
) -> Spread:
    """What each of `drawn`, all of one pair, changes under the plain model and without each set.

    Kept for the next click. Raises ArgumentError for no draws.
    """
    if not drawn:
        raise ArgumentError("the text has no other order, so there is nothing to draw")
    key = (inspected.key, tuple(drawn), tuple(sets), mode)
    return _kept.get(key, lambda: _spread(inspected, drawn, sets, mode))


def _spread(
    inspected: Inspected, drawn: Sequence[Shuffled], sets: Sequence[HeadSet], mode: str
) -> Spread:
    after = [one.after for one in drawn]
    texts = list(dict.fromkeys([drawn[0].before, *after]))
    mask = mask_of(inspected, mode)
    masks = [Variant(str(n), (mask(one.heads),)) for n, one in enumerate(sets)]
    grades = expected_grades(inspected.run(texts, [NONE, *masks]).logits, inspected.labels)
    rows = [texts.index(one) for one in after]
    return Spread(
        names=(Text("不去掉头", "no heads out"), *(one.name for one in sets)),
        changes=grades[:, rows] - grades[:, :1],
        different=len(set(after)),
    )
