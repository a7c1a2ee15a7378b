"""A model read as an offline one, without retraining: what the rows of a plan are measured on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from qt_bert.ablation.cuts import Cut
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.offline import Offline
from qt_bert.planning.offline.layout import Layout
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.scoring.bulk import Scorer

CHECKED = 3
"""Pairs and cuts of the guards, which look at every pair of tokens of every head."""


@dataclass(frozen=True, eq=False)
class OfflineTask:
    """The rows to fill: `counts` are the numbers of layers, ascending."""

    task: PlanTask
    layout: Layout
    counts: tuple[int, ...]

    @cached_property
    def moved(self) -> Scorer:
        """The model with its titles moved, all layers as they are."""
        return self.reading(0)

    @cached_property
    def cuts(self) -> list[Variant]:
        """The block of each number of layers, as a variant of the masked loop."""
        return [_variant(count) for count in self.counts]

    @cached_property
    def discovery(self) -> Sample:
        """The pairs that the number of layers is chosen on."""
        return self._smaller(self.task.whole_discovery)

    @cached_property
    def validation(self) -> Sample:
        """The pairs that the rows are measured on."""
        return self._smaller(self.task.validation)

    def reading(self, layers: int) -> Scorer:
        """The model as an offline one of so many layers."""
        return read_as(self.task.scorer, replace(self.layout.offline, layers=layers))

    def check(self) -> Mapping[str, Any]:
        """Prove on a few pairs that titles are moved and the texts apart; the guards' figures.

        Raises GuardError.
        """
        scorer = read_as(self.task.exact(), self.layout.offline)
        texts = self.validation.texts[:CHECKED]
        encoded = scorer.tokenizer.encode(texts, offsets=False)
        ends = [_variant(count) for count in sorted({self.counts[0], self.counts[-1]})]
        return run_guards(scorer.checkpoint, scorer.encoder, ends, encoded, seed=self.task.seed)

    def _smaller(self, sample: Sample) -> Sample:
        one_logit = self.task.scorer.checkpoint.settings.labels.logits == 1
        limit = self.task.effort.offline.pairs
        return sample.smaller(limit, whole_queries=one_logit, seed=self.task.seed)


def read_as(scorer: Scorer, offline: Offline) -> Scorer:
    """`scorer` reading pairs as an offline model does; the weights, and their layout, are shared."""
    settings = replace(scorer.checkpoint.settings, offline=offline)
    encoder = copy.copy(scorer.encoder)
    encoder.offline = offline
    other = scorer.fresh()
    other.checkpoint = replace(scorer.checkpoint, settings=settings)
    other.runner = encoder
    other.tokenizer = other.checkpoint.pair_tokenizer(scorer.tokenizer.max_length)
    return other


def counts_of(layers: int, rows: int | None) -> tuple[int, ...]:
    """About `rows` numbers of offline layers (None: each), half of the layers among them.

    None at all for a model of one layer: one layer at least must read both texts.
    """
    if rows is None or rows >= layers - 1:
        return tuple(range(1, layers))
    spread = {round(layers * step / (rows + 1)) for step in range(1, rows + 1)}
    return tuple(sorted(n for n in spread | {layers // 2} if 1 <= n < layers))


def _variant(count: int) -> Variant:
    cut = Cut("all", 0, count - 1)
    return Variant(cut.name, (cut,), "plan")
