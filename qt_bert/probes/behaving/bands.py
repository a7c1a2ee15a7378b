"""The band: the largest difference of two scores that means nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.errors import PairFileError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.pairs.sample import sample_queries
from qt_bert.probes.context import ProbeContext
from qt_bert.results import Text

GRADES = 0.25
"""Of expected grades: a sixteenth of the way from 1 to 5."""
STEPS = 20
CURVE = 4.0
"""The curve goes up to so many bands, in steps of a fifth of one: 0, 0.05 … 1 grade."""
QUICK_PAIRS = 400

GRADE, LEVEL, SCORE = Text("级", "grade"), Text("档", "level"), Text("分", "score")


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


def band_of(context: ProbeContext) -> Band | None:
    """0.25 of a grade, as much of other levels; of one logit the median gap in its own rankings.

    These are of `--band-from`, by default of discovery. None where no query there has two titles.
    Raises PairFileError where the user's own file has none.
    """
    labels = context.model.checkpoint.settings.labels
    if labels.logits > 1:
        if labels.grades is not None:
            return Band(GRADES, GRADE)
        return Band(GRADES * (labels.logits - 1) / 4, LEVEL)
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
    gaps = neighbour_gaps(scores, [pair.query for pair in pairs])
    name = (given or context.files.discovery or context.files.pairs).name
    return Band(float(np.median(gaps)), SCORE, name, len(gaps))


def ranked(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of queries that have two titles or more."""
    titles = Counter(pair.query for pair in pairs)
    return [pair for pair in pairs if titles[pair.query] > 1]


def neighbour_gaps(scores: FloatArray, queries: Sequence[str]) -> FloatArray:
    """The gaps between neighbours in each query's ranking by `scores` [n], over all queries."""
    own: dict[str, list[float]] = {}
    for score, query in zip(scores, queries, strict=True):
        own.setdefault(query, []).append(float(score))
    gaps = [np.diff(np.sort(one)) for one in own.values()]
    return np.concatenate([np.empty(0), *gaps])
