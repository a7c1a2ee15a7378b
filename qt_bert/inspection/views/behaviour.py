"""The behaviour card of a model that is open, and what leaving heads out does to each behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import IntArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.behaviour_scores import Scores, band_here, few_scores, kept_scores
from qt_bert.probes.behaving.bands import Band
from qt_bert.probes.behaving.cases import Case, Cases
from qt_bert.probes.behaving.estimates import Mean, mean
from qt_bert.probes.behaving.scores import Judged, judge_cases
from qt_bert.probes.behaving.tallies import Tally, tallies

RESAMPLES = 1_000
"""Of queries, for intervals; nothing is tested here."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Both:
    """Cases judged by the whole model, and without the heads left out (None: none are)."""

    band: Band
    whole: Judged
    without: Judged | None
    truncated: int

    @property
    def ways(self) -> list[Judged]:
        """Both, or the whole model's alone."""
        return [self.whole] if self.without is None else [self.whole, self.without]


@dataclass(frozen=True, eq=False, kw_only=True)
class Line:
    """One phenomenon: of the whole model, without the heads, and how its score changes, paired."""

    whole: Tally
    without: Tally | None = None
    change: Mean | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """All cases, and a line for each phenomenon in the order of the file.

    `complete` is False where heads are left out and nobody has judged the cases without them yet.
    """

    both: Both
    lines: dict[str, Line]
    complete: bool

    @property
    def weakest(self) -> str:
        """The phenomenon of the lowest score."""
        return min(self.lines, key=lambda name: self.lines[name].whole.score.value)

    def of(self, phenomenon: str) -> Both:
        """The cases of one phenomenon."""
        both = self.both
        without = both.without and both.without.of_phenomenon(phenomenon)
        return Both(
            band=both.band,
            whole=both.whole.of_phenomenon(phenomenon),
            without=without,
            truncated=both.truncated,
        )


def card(
    inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str, seed: int
) -> Card | None:
    """The card of `cases` as far as `score_cases` was run; None before it ran at all."""
    whole = kept_scores(inspected, cases, (), mode)
    without = kept_scores(inspected, cases, out, mode) if out else None
    if whole is None:
        return None
    key = (inspected.key, cases.texts_sha256, tuple(out), mode, seed, without is None)
    return _kept.get(key, lambda: _card(inspected, cases, [whole, without], bool(out), seed))


def judge_few(inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str) -> Both:
    """A few cases judged at once."""
    return _both(band_here(inspected), cases, few_scores(inspected, cases, out, mode))


def worst_first(judged: Judged) -> IntArray:
    """Places of cases [n]: of `better` ones the lowest Δ first, of others the largest |Δ|."""
    deltas = judged.deltas
    return np.argsort(np.where(judged.better, deltas, -np.abs(deltas)), kind="stable")


_kept = Kept()


def _both(band: Band, cases: Sequence[Case], scores: Sequence[Scores | None]) -> Both:
    judged = [
        judge_cases(one.titles, one.others, cases, band.value) for one in scores if one is not None
    ]
    assert scores[0] is not None
    return Both(
        band=band,
        whole=judged[0],
        without=judged[1] if len(judged) > 1 else None,
        truncated=scores[0].truncated,
    )


def _card(
    inspected: Inspected, cases: Cases, scores: Sequence[Scores | None], masked: bool, seed: int
) -> Card:
    both = _both(band_here(inspected), cases.listed, scores)
    before = tallies(both.whole, resamples=RESAMPLES, seed=seed, swaps=0)
    if both.without is None:
        lines = {name: Line(whole=one) for name, one in before.items()}
        return Card(both=both, lines=lines, complete=not masked)
    after = tallies(both.without, resamples=RESAMPLES, seed=seed, swaps=0)
    lines = {
        name: Line(whole=one, without=after[name], change=_change(both, name, seed))
        for name, one in before.items()
    }
    return Card(both=both, lines=lines, complete=True)


def _change(both: Both, phenomenon: str, seed: int) -> Mean:
    """How much higher the score is without the heads, over the same cases."""
    assert both.without is not None
    before, after = (one.of_phenomenon(phenomenon) for one in (both.whole, both.without))
    moved = (after.outcomes - before.outcomes).astype(np.float64)
    return mean(moved, before.queries, resamples=RESAMPLES, seed=seed, swaps=0)
