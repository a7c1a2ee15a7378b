"""Senders left out with nothing held, and on each direct route into some heads of one upper layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import ENTRIES, Entry, Hold, Path, path_name
from qt_bert.data.pairs import Pair
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.focus import FOCUS, Places, row_quantities
from qt_bert.probes.streams import stream
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.stats.judgements import index_queries

Outcome = Literal["focus", "grade"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""The focus of a receiver's [CLS] row, as the probe `focus` has it, and the expected grade."""
Way = Literal["total"] | Entry
WAYS: tuple[Way, ...] = ("total", *ENTRIES)
"""A sender left out with nothing held; what of that reaches the receiver directly, by entry."""

AT_ONCE = 32
"""Senders of one pass: what arrives from each is kept while its batch is at work."""
_FOCUS = "focus"


@dataclass(frozen=True, eq=False)
class Sender:
    """Heads left out together, under the name that stands in their variants' names, and what is run."""

    name: str
    mask: HeadMask
    ways: tuple[Way, ...] = WAYS

    @property
    def entries(self) -> list[Entry]:
        """The entries among its ways, in the order of ENTRIES."""
        return [entry for entry in ENTRIES if entry in self.ways]


@dataclass(frozen=True, eq=False)
class Changes:
    """What variants change, summed over the pairs of each query.

    `sums` [outcomes, queries, senders, receivers, ways]; a change is variant − plain, NaN for a way
    that was not run. `pairs` [outcomes, receivers]: over how many pairs.
    """

    sums: FloatArray
    pairs: FloatArray


def changes(
    context: Context,
    pairs: Sequence[Pair],
    senders: Sequence[Sender],
    receivers: Sequence[Head],
    hold: Hold = "z",
) -> Changes:
    """Run every sender's ways into each of `receivers`, which are heads of one layer."""
    scorer, layer = context.model, receivers[0].layer
    texts = [(pair.query, pair.title) for pair in pairs]
    focus = _focus_row(layer, Places(texts, context.segmenter))
    groups = [senders[start : start + AT_ONCE] for start in range(0, len(senders), AT_ONCE)]
    runs = [[NONE, *variants_of(group, receivers, hold)] for group in groups]
    parts = []
    with context.progress(sum(map(len, runs)) * len(pairs), "runs") as shown:
        for group, variants in zip(groups, runs, strict=True):
            found = stream(scorer, texts, [focus], variants, shown=shown)
            grades = ranking_scores(found["logits"], scorer.checkpoint.settings.labels)
            parts.append(_by_way(found[_FOCUS][:, :, 0], grades, group, receivers))
    run = np.array([[way in sender.ways for way in WAYS] for sender in senders])
    return _summed(np.concatenate(parts, axis=1), run, [pair.query for pair in pairs])


def variants_of(
    senders: Sequence[Sender], receivers: Sequence[Head], hold: Hold = "z"
) -> Iterator[Variant]:
    """Of each sender, as far as its ways go: left out, then every receiver's entries."""
    for sender in senders:
        if "total" in sender.ways:
            yield Variant(sender.name, (sender.mask,), "total")
        for receiver in receivers:
            for entry in sender.entries:
                name = path_name(sender.name, receiver, entry)
                yield Variant(name, (Path(sender.mask, receiver, entry, hold),), "path")


def _focus_row(layer: int, places: Places) -> Reduction:
    """The focus of every head's [CLS] row [B, heads]."""

    def compute(view: View) -> torch.Tensor:
        return row_quantities(view.values[:, :, 0].float(), places.masks(view.batch))[..., FOCUS]

    return Reduction(_FOCUS, "attention", (layer,), compute, first_row=True)


def _by_way(
    focus: np.ndarray, grades: FloatArray, senders: Sequence[Sender], receivers: Sequence[Head]
) -> FloatArray:
    """Changes [outcomes, senders, receivers, ways, pairs], NaN for ways that were not run.

    From focus [variants, pairs, heads] and grades [variants, pairs], the plain model's first and the
    others as `variants_of` names them.
    """
    rows = np.moveaxis(focus[..., [one.head for one in receivers]], -1, 1).astype(np.float64)
    both = np.stack([rows, np.broadcast_to(grades[:, None], rows.shape)])
    moved = both[:, 1:] - both[:, :1]  # [outcomes, variants, receivers, pairs]
    shape = (len(OUTCOMES), len(senders), len(receivers), len(WAYS), moved.shape[-1])
    found, variant = np.full(shape, np.nan), 0
    for number, sender in enumerate(senders):
        if "total" in sender.ways:
            found[:, number, :, WAYS.index("total")] = moved[:, variant]
            variant += 1
        for place in range(len(receivers)):
            for entry in sender.entries:
                found[:, number, place, WAYS.index(entry)] = moved[:, variant, place]
                variant += 1
    return found


def _summed(values: FloatArray, run: BoolArray, queries: Sequence[str]) -> Changes:
    """Sums by query; a pair whose focus some variant leaves undefined counts nowhere there.

    `run` [senders, ways] says what was run; the sums of all else stay NaN.
    """
    asked = run[None, :, None, :, None]
    broken = asked & ~np.isfinite(values)
    known = np.asarray(~broken.any(axis=(1, 3)))  # [outcomes, receivers, pairs]
    kept = np.where(known[:, None, :, None], values, 0.0)
    index, count = index_queries(queries)
    sums = np.zeros((count, *kept.shape[:-1]))
    np.add.at(sums, index, np.moveaxis(kept, -1, 0))
    return Changes(np.moveaxis(sums, 0, 1), known.sum(axis=-1).astype(np.float64))
