"""The band: the largest difference of two scores that means nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import sample_queries
from qt_bert.errors import PairFileError
from qt_bert.probes.base import Context
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels

GRADES = 0.25
"""Of expected grades: a sixteenth of the way from 1 to 5."""
STEPS = 20
CURVE = 4.0
"""The curve goes up to so many bands, in steps of a fifth of one: 0, 0.05 … 1 grade."""
QUICK_PAIRS = 400

GRADE, LEVEL, SCORE = Text("档", "grade"), Text("级", "level"), Text("分", "score")


@dataclass(frozen=True)
class Band:
    """Its width in `unit`, and where it comes from.

    `source` is `fixed`, or the name of the file whose `gaps` it is the median of.
    """

    value: float
    unit: Text
    source: str = "fixed"
    gaps: int | None = None

    def curve(self) -> list[float]:
        """The bands at which the curve is drawn; none where this one is 0."""
        if not self.value:
            return []
        return [CURVE * self.value * step / STEPS for step in range(STEPS + 1)]

    @property
    def said(self) -> Text:
        """The band in a few words."""
        if self.gaps is None:
            return Text(f"{self.value:g} {self.unit.zh}", f"{self.value:g} {self.unit.en}")
        return Text(
            f"{self.value:.3g} {self.unit.zh}（模型自己的排序里，相邻标题分差的中位数，{self.source}）",
            f"{self.value:.3g} {self.unit.en} (the median gap between neighbours in the model's own "
            f"ranking, {self.source})",
        )


def fixed_band(labels: ModelLabels) -> Band | None:
    """0.25 of a grade, as large a share of the scale of other levels; None for one logit."""
    if labels.logits == 1:
        return None
    if labels.grades is not None:
        return Band(GRADES, GRADE)
    return Band(GRADES * (labels.logits - 1) / 4, LEVEL)


def measured_band(scores: FloatArray, queries: Sequence[str], source: str) -> Band:
    """The median gap between neighbours in the ranking of each query's titles by `scores` [n]."""
    gaps = neighbour_gaps(scores, queries)
    return Band(float(np.median(gaps)), SCORE, source, len(gaps))


def band_of(context: Context) -> Band | None:
    """`fixed_band`; of one logit `measured_band`, on `--band-from` or, by default, discovery.

    None where no query there has two titles. Raises PairFileError where the user's own file has none.
    """
    fixed = fixed_band(context.model.checkpoint.settings.labels)
    if fixed is not None:
        return fixed
    given = context.band_from
    pairs = ranked(context.discovery if given is None else list(context.files.reader.open(given)))
    if not pairs and given is not None:
        raise PairFileError(f"{given}: no query of two titles to measure the band on")
    if not pairs:
        return None
    if not context.full:
        pairs = sample_queries(pairs, QUICK_PAIRS, context.seed)
    texts = [(pair.query, pair.title) for pair in pairs]
    with context.progress(len(texts), "pairs") as shown:
        scores = context.model.fresh().logits(texts, shown)[:, 0].astype(np.float64)
    name = (given or context.files.discovery or context.files.pairs).name
    return measured_band(scores, [pair.query for pair in pairs], name)


def ranked(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of queries that have two titles or more, each pair once: a repeated one has no gap."""
    once: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        once.setdefault((pair.query, pair.title), pair)
    titles = Counter(query for query, _ in once)
    return [pair for pair in once.values() if titles[pair.query] > 1]


def neighbour_gaps(scores: FloatArray, queries: Sequence[str]) -> FloatArray:
    """The gaps between neighbours in each query's ranking by `scores` [n], over all queries."""
    own: dict[str, list[float]] = {}
    for score, query in zip(scores, queries, strict=True):
        own.setdefault(query, []).append(float(score))
    gaps = [np.diff(np.sort(one)) for one in own.values()]
    return np.concatenate([np.empty(0), *gaps])
