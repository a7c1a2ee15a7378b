"""Senders left out with nothing held, and on each direct route into some heads of one upper layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.paths import ENTRIES, Entry, Hold, Path, path_name
from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.judgements import index_queries
from qt_bert.pairs import Pair
from qt_bert.probes.common.streams import stream
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.readers.cls_row import FOCUS, Places, measure
from qt_bert.scoring.outputs import read_outputs

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
    """Heads left out together, under the name that stands in their variants' names."""

    name: str
    mask: HeadMask


@dataclass(frozen=True, eq=False)
class Changes:
    """What variants change, summed over the pairs of each query.

    `sums` [outcomes, queries, senders, receivers, ways]; a change is variant − plain. `pairs`
    [outcomes, receivers]: over how many pairs.
    """

    sums: FloatArray
    pairs: FloatArray


def changes(
    context: ProbeContext,
    pairs: Sequence[Pair],
    senders: Sequence[Sender],
    receivers: Sequence[Head],
    hold: Hold = "contexts",
) -> Changes:
    """Run every sender into every entry of `receivers`, which are heads of one layer."""
    scorer, layer = context.model, receivers[0].layer
    texts = [(pair.query, pair.title) for pair in pairs]
    focus = _focus_row(layer, Places(texts, context.segmenter))
    per_sender = 1 + len(receivers) * len(ENTRIES)
    groups = [senders[start : start + AT_ONCE] for start in range(0, len(senders), AT_ONCE)]
    runs = len(groups) + len(senders) * per_sender
    parts = []
    with context.progress(runs * len(pairs), "runs") as shown:
        for group in groups:
            variants = [NONE, *variants_of(group, receivers, hold)]
            found = stream(scorer, texts, [focus], variants, shown=shown)
            grades = expected(found["logits"], scorer.checkpoint.settings.labels)
            parts.append(_by_way(found[_FOCUS][:, :, 0], grades, receivers))
    return _summed(np.concatenate(parts, axis=1), [pair.query for pair in pairs])


def variants_of(
    senders: Sequence[Sender], receivers: Sequence[Head], hold: Hold = "contexts"
) -> Iterator[Variant]:
    """Of each sender: left out, then every receiver's entries."""
    for sender in senders:
        yield Variant(sender.name, (sender.mask,), "total")
        for receiver in receivers:
            for entry in ENTRIES:
                name = path_name(sender.name, receiver, entry)
                yield Variant(name, (Path(sender.mask, receiver, entry, hold),), "path")


def expected(logits: np.ndarray, labels: ModelLabels) -> FloatArray:
    """Expected grades (levels; the score of a one-logit model) of logits [variants, pairs, K]."""
    flat = read_outputs(logits.reshape(-1, logits.shape[-1]), labels).ranking_score
    return np.asarray(flat.reshape(logits.shape[:-1]))


def _focus_row(layer: int, places: Places) -> Reduction:
    """The focus of every head's [CLS] row [B, heads]."""

    def compute(view: View) -> torch.Tensor:
        return measure(view.values[:, :, 0].float(), places.masks(view.batch))[..., FOCUS]

    return Reduction(_FOCUS, "attention", (layer,), compute, first_row=True)


def _by_way(focus: np.ndarray, grades: FloatArray, receivers: Sequence[Head]) -> FloatArray:
    """Changes [outcomes, senders, receivers, ways, pairs].

    From focus [variants, pairs, heads] and grades [variants, pairs], the plain model's first.
    """
    numbers, into = [one.head for one in receivers], len(receivers) * len(ENTRIES)
    rows = (focus[1:] - focus[:1]).astype(np.float64)
    rows = rows.reshape(-1, 1 + into, *rows.shape[1:])  # [senders, total and paths, pairs, heads]
    score = (grades[1:] - grades[:1]).reshape(len(rows), 1 + into, -1)
    found = np.empty((len(OUTCOMES), len(rows), len(receivers), len(WAYS), score.shape[-1]))
    for place, number in enumerate(numbers):
        own = slice(1 + place * len(ENTRIES), 1 + (place + 1) * len(ENTRIES))
        for outcome, values in enumerate((rows[..., number], score)):
            found[outcome, :, place, 0] = values[:, 0]
            found[outcome, :, place, 1:] = values[:, own]
    return found


def _summed(values: FloatArray, queries: Sequence[str]) -> Changes:
    """Sums by query; a pair whose focus some variant leaves undefined counts nowhere there."""
    known = np.asarray(np.isfinite(values).all(axis=(1, 3)))  # [outcomes, receivers, pairs]
    kept = np.where(known[:, None, :, None], values, 0.0)
    index, count = index_queries(queries)
    sums = np.zeros((count, *kept.shape[:-1]))
    np.add.at(sums, index, np.moveaxis(kept, -1, 0))
    return Changes(np.moveaxis(sums, 0, 1), known.sum(axis=-1).astype(np.float64))
