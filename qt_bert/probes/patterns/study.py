"""What is run: both models on the same validation pairs, every head's map given its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base
from qt_bert.probes.naming import by_query, means
from qt_bert.probes.patterns.classifier import Classifier, open_classifier
from qt_bert.probes.patterns.features import on_own_segment
from qt_bert.probes.patterns.kinds import KINDS, WHOLE
from qt_bert.probes.patterns.maps import Maps
from qt_bert.probes.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import PATTERNS, shipped
from qt_bert.stats.arrays import FloatArray

QUICK_PAIRS = 150
SEEN = (*KINDS, WHOLE)
"""What is counted of each map: its kind, and of blocks whether they are spread over everything."""
OWN_SEGMENT = 0.5
"""A block that gives its own segment less than this above an even map is noted `whole`."""


@dataclass(frozen=True, eq=False)
class Shares:
    """One model's maps by kind, [queries, layers, heads, SEEN]: a query's mean over its pairs.

    `second` is the same by rules fitted on the second pass of labels, where there was one.
    """

    per_query: FloatArray
    heads: Sequence[Head]
    second: FloatArray | None = None

    def of_head(self, name: str) -> FloatArray:
        """The share of maps of one of SEEN, of every head [layers, heads]; NaN where none is."""
        found = means(self.per_query[..., SEEN.index(name)])
        there = np.full(found.shape, np.nan)
        for head in self.heads:
            there[head] = found[head]
        return there

    def of_layers(self, name: str) -> FloatArray:
        """The same of every layer, over its heads [layers]; NaN for a layer without heads."""
        return means(self.of_head(name).T)

    @property
    def of_all(self) -> FloatArray:
        """The shares over all heads, of every query [queries, SEEN]."""
        return self._over_heads(self.per_query)

    @property
    def of_all_by_second(self) -> FloatArray | None:
        """The same by the second pass's rules."""
        return None if self.second is None else self._over_heads(self.second)

    def _over_heads(self, per_query: FloatArray) -> FloatArray:
        each = [per_query[:, head.layer, head.head] for head in self.heads]
        return np.asarray(np.mean(each, axis=0))


@dataclass(frozen=True, eq=False)
class Study:
    """The model's maps of `pairs`, those of the model before fine-tuning where one was given."""

    pairs: Sequence[Pair]
    classifier: Classifier
    after: Shares
    base: Checkpoint | None
    before: Shares | None


def study(context: Context) -> Study:
    """Run all of it.

    Raises CheckpointError for a base that the model cannot come from, ArgumentError for a model
    without heads.
    """
    classifier = open_classifier(shipped(PATTERNS))
    model = context.model
    pairs = _sample(context)
    base = None if context.base is None else open_base(context.base, model.checkpoint)
    heads = [
        head
        for head in model.checkpoint.shape.all_heads
        if base is None or head not in base.shape.absent
    ]
    if not heads:
        raise ArgumentError(f"{model.checkpoint.name} has no attention heads, so it has no maps")
    before = None
    with context.progress((1 + (base is not None)) * len(pairs), "pairs") as shown:
        after = read(model, pairs, heads, classifier, shown=shown)
        if base is not None:
            earlier = Scorer(base, max_length=model.tokenizer.max_length)
            before = read(earlier, pairs, heads, classifier, shown=shown)
    return Study(pairs, classifier, after, base, before)


def _sample(context: Context) -> list[Pair]:
    every = context.validation
    return spread_over_queries(every, context.choose(QUICK_PAIRS, len(every)), context.seed)


def read(
    scorer: Scorer,
    pairs: Sequence[Pair],
    heads: Sequence[Head],
    classifier: Classifier,
    *,
    shown: Progress = silent,
) -> Shares:
    """The maps of every head on `pairs` by kind; `heads` are those that count."""
    layers = tuple(range(len(scorer.encoder.layers)))

    def seen(view: View) -> torch.Tensor:
        return kinds_seen(view, classifier)

    reduction = Reduction("patterns", "attention", layers, seen)
    texts = [(pair.query, pair.title) for pair in pairs]
    found = stream(scorer, texts, [reduction], shown=shown)["patterns"][0]
    shares = by_query(found.astype(np.float64), [pair.query for pair in pairs])
    return Shares(shares[..., 0, :], heads, shares[..., 1, :] if shares.shape[-2] > 1 else None)


def kinds_seen(view: View, classifier: Classifier) -> torch.Tensor:
    """1 at what each map is, by each of the classifier's answers [B, heads, answers, SEEN]."""
    size, heads = view.values.shape[:2]
    maps = Maps.of_batch(view.values, view.batch)
    answers = classifier.answers(maps)
    found = torch.zeros(len(maps), len(answers), len(SEEN))
    for place, kinds in enumerate(answers):
        found[torch.arange(len(maps)), place, torch.from_numpy(kinds)] = 1.0
    everywhere = (on_own_segment(maps) < OWN_SEGMENT).float()
    found[..., SEEN.index(WHOLE)] = found[..., KINDS.index("block")] * everywhere[:, None]
    return found.reshape(size, heads, len(answers), len(SEEN))
