"""Where heads end the words of a text, beside jieba's three granularities, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head, checked_heads
from qt_bert.evaluation.arrays import BoolArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.word_readings import Calibration, calibration_of, weights_under
from qt_bert.probes.common.characters import QUERY, TITLE
from qt_bert.probes.word_ends.decisions import Asked, Decisions, decisions_of
from qt_bert.probes.word_ends.references import granularities
from qt_bert.probes.word_ends.weights import Weights
from qt_bert.results import Text

Rule = Literal["calibrated", "article"]
"""A head's own reading (what is looked at, threshold, side), or the article's rule (2.2)."""

RULES: dict[Rule, Text] = {
    "calibrated": Text("校准的读法", "calibrated reading"),
    "article": Text("文章的规则", "article's rule"),
}
MOST_HEADS = 12
"""Heads shown at a time."""


@dataclass(frozen=True, eq=False)
class Heard:
    """What all heads say of D decisions under one variant: their weights, and whether a word ends
    by each rule [layers, heads, D]."""

    weights: Weights
    said: dict[Rule, BoolArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """One model on a few texts.

    `asked` are the texts, `shown` what the model reads of each; `decisions` holds those that have
    any. `labels` are jieba's answers by granularity [D], `ends` its word ends in each text. `before`
    and, where heads are left out, `after`; `moved` are those of `heads` that stand above one left
    out, so that they may change. `cut` says that a text is longer than the model reads, `known` that
    one was among those the readings were set on.
    """

    model: str
    asked: tuple[Asked, ...]
    shown: tuple[str, ...]
    decisions: Decisions
    labels: dict[str, BoolArray]
    ends: tuple[dict[str, set[int]], ...]
    heads: tuple[Head, ...]
    calibration: Calibration
    before: Heard
    after: Heard | None
    moved: tuple[Head, ...]
    cut: bool
    known: bool

    @property
    def majority(self) -> BoolArray:
        """The commoner answer of the calibration's decisions, everywhere [D]."""
        return np.full(len(self.decisions), self.calibration.majority)

    def places(self, number: int) -> dict[int, int]:
        """Of the text `number` of `asked`: place of a left character → its decision."""
        kept = [n for n, one in enumerate(self.decisions.asked) if one == self.asked[number]]
        found = np.flatnonzero(np.isin(self.decisions.text, kept))
        return {int(self.decisions.place[at]): int(at) for at in found}


def texts_asked(query: str, title: str, instead: str = "") -> list[Asked]:
    """The query and the title of a pair; or the text `instead` alone, read in the title's place."""
    if instead:
        return [Asked(instead, (query, instead), TITLE, query)]
    pair = (query, title)
    return [Asked(query, pair, QUERY, query), Asked(title, pair, TITLE, query)]


def words(
    inspected: Inspected,
    asked: Sequence[Asked],
    heads: Sequence[Head] = (),
    out: Sequence[Head] = (),
    mode: str = "zero",
) -> Words:
    """Read `asked`, which are sides of one pair, by `heads` (by default the best on calibration).

    Where heads are left `out`, what the others say then stands beside what they say else. Raises
    ArgumentError for heads that the model lacks.
    """
    calibration = calibration_of(inspected)
    chosen = tuple(dict.fromkeys(heads)) or calibration.best
    chosen = tuple(checked_heads(chosen[:MOST_HEADS], inspected.shape))
    decisions = decisions_of(inspected.scorer.tokenizer, asked)
    references = granularities(inspected.segmenter)
    shown = [_read(inspected, one) for one in asked]
    weights = _weights(inspected, decisions, tuple(sorted(out)), mode)
    heard = [_heard(one, calibration) for one in weights]
    lowest = min((head.layer for head in out), default=inspected.shape.layers)
    return Words(
        model=inspected.name,
        asked=tuple(asked),
        shown=tuple(shown),
        decisions=decisions,
        labels={name: decisions.labels(ends) for name, ends in references.items()},
        ends=tuple({name: ends(text) for name, ends in references.items()} for text in shown),
        heads=chosen,
        calibration=calibration,
        before=heard[0],
        after=heard[1] if out else None,
        moved=tuple(head for head in chosen if head.layer > lowest),
        cut=any(len(text) < len(one.text) for text, one in zip(shown, asked, strict=True)),
        known=any(one.text in calibration.texts for one in asked),
    )


_kept = Kept()


def _weights(
    inspected: Inspected, decisions: Decisions, out: tuple[Head, ...], mode: str
) -> list[Weights]:
    """With all heads and, where some are left out, without them; kept for the next click."""

    def run() -> list[Weights]:
        part = inspected.part(out, mode)
        variants = [NONE, Variant("out", (part,))] if part else [NONE]
        return weights_under(inspected, decisions, variants)

    key = (inspected.key, decisions.asked, out, mode if out else "")
    return _kept.get(key, run)


def _heard(weights: Weights, calibration: Calibration) -> Heard:
    said: dict[Rule, BoolArray] = {
        "calibrated": calibration.calibrated.say(weights),
        "article": weights.article_says(),
    }
    return Heard(weights, said)


def _read(inspected: Inspected, one: Asked) -> str:
    """As much of a text as the model reads."""
    encoded = inspected.encode(*one.pair)
    cut = encoded.query_truncated if one.side == QUERY else encoded.title_truncated
    if not cut:
        return one.text
    own = zip(encoded.side, encoded.spans, strict=True)
    return one.text[: max((end for side, (_, end) in own if side == one.side), default=0)]
