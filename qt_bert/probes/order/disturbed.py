"""What each way to disturb a title or a query does to the grade."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.models.card import ModelLabels
from qt_bert.probes.naming import resampled_ratio
from qt_bert.probes.order.grades import expected_grades, grade_label, probabilities
from qt_bert.probes.order.texts import KINDS, SIDES, disturbances
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, sum_by
from qt_bert.stats.intervals import percentile_interval
from qt_bert.stats.judgements import index_queries
from qt_bert.text import Label, Text

TAG = "order"
"""Pairs of the shipped splits in which word order decides have this in their column `tags`."""

ORIGINAL = ("", "original")

Way = tuple[str, str]
"""A side and a kind, or `ORIGINAL`."""


class Cell(NamedTuple):
    """What a group's texts under one way gave: means over the texts made of `pairs` pairs.

    `expected` is the grade, `change` that less the grade of the same pairs as they were, with an
    interval over resampled queries.
    """

    expected: float | None
    change: float | None
    interval: tuple[float, float] | None
    probabilities: tuple[float, ...] | None
    pairs: int


NOTHING = Cell(None, None, None, None, 0)


@dataclass(frozen=True, eq=False)
class Disturbed:
    """`cells[way][group]`; `ineligible[way]` pairs have no other order of this kind."""

    groups: tuple[Label, ...]
    cells: Mapping[Way, tuple[Cell, ...]]
    ineligible: Mapping[Way, int]
    pairs: int
    queries: int

    @property
    def ways(self) -> list[Way]:
        """All but the original, titles first."""
        return [way for way in self.cells if way != ORIGINAL]


def disturbed(
    scorer: Scorer,
    pairs: Sequence[Pair],
    words: Segmenter,
    *,
    draws: int,
    resamples: int,
    seed: int,
    shown: Progress,
) -> Disturbed:
    """Score every pair as it is and in every other order, `draws` of each."""
    texts, owners = _texts(pairs, words, draws, seed)
    listed = [text for way in texts for text in texts[way]]
    logits = scorer.fresh().logits(listed, shown)
    labels = scorer.checkpoint.settings.labels
    groups = _groups(pairs)
    before = expected_grades(logits[: len(pairs)], labels)
    cells: dict[Way, tuple[Cell, ...]] = {}
    start = 0
    for way, own in owners.items():
        part = logits[start : start + len(own)]
        start += len(own)
        spread = _Spread(pairs, labels, own, part, before, resamples, seed)
        cells[way] = tuple(spread.cell(members) for members in groups.values())
    ineligible = {way: len(pairs) - len(set(own)) for way, own in owners.items()}
    queries = len({pair.query for pair in pairs})
    return Disturbed(tuple(groups), cells, ineligible, len(pairs), queries)


def _texts(
    pairs: Sequence[Pair], words: Segmenter, draws: int, seed: int
) -> tuple[dict[Way, list[tuple[str, str]]], dict[Way, list[int]]]:
    """Texts of every way, and the pair that each was made of."""
    texts: dict[Way, list[tuple[str, str]]] = {ORIGINAL: [(p.query, p.title) for p in pairs]}
    owners: dict[Way, list[int]] = {ORIGINAL: list(range(len(pairs)))}
    ways = disturbances(words)
    for side in SIDES:
        for kind in KINDS:
            rng = np.random.default_rng([seed, *f"{side}:{kind}".encode()])
            texts[side, kind], owners[side, kind] = [], []
            for number, pair in enumerate(pairs):
                for _ in range(1 if kind == "reversal" else draws):
                    changed = ways[kind](getattr(pair, side), rng)
                    if changed is not None:
                        on_title = side == "title"
                        texts[side, kind].append(
                            (pair.query, changed) if on_title else (changed, pair.title)
                        )
                        owners[side, kind].append(number)
    return texts, owners


def _groups(pairs: Sequence[Pair]) -> dict[Label, set[int]]:
    """Pairs by label, lowest first, and those in which order decides."""
    found = sorted(
        {pair.grades for pair in pairs if pair.grades}, key=lambda s: (sum(s) / len(s), s)
    )
    groups: dict[Label, set[int]] = {
        grade_label(grades): {n for n, pair in enumerate(pairs) if pair.grades == grades}
        for grades in found
    }
    tagged = {
        n for n, p in enumerate(pairs) if TAG in re.split(r"[\s,;]+", p.extra.get("tags", ""))
    }
    return groups | ({Text("标为 order", "tagged order"): tagged} if tagged else {})


class _Spread:
    """Means over the texts of one way; intervals resample their queries."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        labels: ModelLabels,
        owners: Sequence[int],
        logits: np.ndarray,
        before: FloatArray,
        resamples: int,
        seed: int,
    ) -> None:
        self._owners = np.array(owners, np.int64)
        self._queries = [pairs[owner].query for owner in owners]
        self._grades = expected_grades(logits, labels)
        self._changes = self._grades - before[self._owners]
        self._probabilities = probabilities(logits, labels)
        self._resamples, self._seed = resamples, seed

    def cell(self, members: set[int]) -> Cell:
        """What the texts made of these pairs give."""
        rows = np.isin(self._owners, list(members))
        pairs = len(set(self._owners[rows].tolist()))
        if not pairs:
            return NOTHING
        shares = self._probabilities
        return Cell(
            float(self._grades[rows].mean()),
            float(self._changes[rows].mean()),
            percentile_interval(self._resampled(rows)),
            None if shares is None else tuple(shares[rows].mean(axis=0).tolist()),
            pairs,
        )

    def _resampled(self, rows: np.ndarray) -> FloatArray:
        """Mean changes over resampled queries, of those that these texts have [R]."""
        queries, n = index_queries([self._queries[row] for row in np.flatnonzero(rows)])
        if n < 2:
            return np.empty(0)  # a single query cannot be resampled
        sums = sum_by(queries, self._changes[rows], n)
        counts = sum_by(queries, np.ones(len(queries)), n)
        return resampled_ratio(sums, counts, self._resamples, self._seed)
