"""Behaviour cases scored by a model that is open: all in slices of a job, or a few at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.slices import sliced_logits
from qt_bert.inspection.sources import shipped_rows
from qt_bert.inspection.turns import Job
from qt_bert.inspection.views.evaluation import SCORING, SCORING_WITHOUT
from qt_bert.pairs.sample import sample_queries
from qt_bert.probes.behaving.bands import Band, fixed_band, measured_band, ranked
from qt_bert.probes.behaving.cases import Case, Cases, titles_then_others
from qt_bert.probes.behaving.reading import read_cases
from qt_bert.progress import Progress, silent
from qt_bert.shipped import BEHAVIOURS, DEV, shipped

BAND_PAIRS = 128
"""Pairs of dev that the band of a model of one logit is measured on here."""

Way = tuple[tuple[Head, ...], str]
"""The heads left out, and what replaces them."""
_PLAIN: Way = ((), "")


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model gives the titles [cases] and the others [cases]: expected grades, or its logit.

    `truncated` titles were cut at the model's length.
    """

    titles: FloatArray
    others: FloatArray
    truncated: int


@cache
def shipped_cases() -> Cases:
    """The cases that ship. Raises ArgumentError where this installation has none."""
    return read_cases(shipped(BEHAVIOURS))


def band_here(inspected: Inspected) -> Band:
    """The probe's band; of a model of one logit measured on the dev pairs that ship, once a model."""
    fixed = fixed_band(inspected.labels)
    return _bands.get(inspected.key, lambda: _measured(inspected)) if fixed is None else fixed


def kept_scores(
    inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str
) -> Scores | None:
    """The scores of `score_cases`, where they were computed and are kept."""
    return _kept.find(_key(inspected, cases, *_way(out, mode)))


def score_cases(
    inspected: Inspected,
    cases: Cases,
    out: Sequence[Head],
    mode: str,
    job: Job,
    shown: Progress = silent,
) -> None:
    """Score all cases by the whole model, and (where `out` names heads) without these, and keep it.

    What is kept already is not computed again. The model runs in slices of `job`; `shown` counts
    pairs as `units` says, its notes are steps of `evaluation.STEPS`. Raises Stopped.
    """
    for way in _missing(inspected, cases, out, mode):
        shown.advance(0, SCORING_WITHOUT if way[0] else SCORING)
        make = partial(_scored, inspected, cases.listed, way, job, shown)
        _kept.get(_key(inspected, cases, *way), make)


def units(inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str) -> int:
    """Pairs that `score_cases` has to run: two a case and model."""
    return 2 * len(cases.listed) * len(_missing(inspected, cases, out, mode))


def few_scores(
    inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str
) -> list[Scores]:
    """Scores of a few cases at once: by the whole model, and without `out` where it names heads."""
    key = ("few", inspected.key, tuple(cases), _way(out, mode))
    return _kept.get(key, lambda: _few(inspected, cases, out, mode))


_kept, _bands = Kept(), Kept()


def _way(out: Sequence[Head], mode: str) -> Way:
    return (tuple(out), mode) if out else _PLAIN


def _missing(inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str) -> list[Way]:
    ways = dict.fromkeys([_PLAIN, _way(out, mode)])
    return [way for way in ways if _kept.find(_key(inspected, cases, *way)) is None]


def _key(inspected: Inspected, cases: Cases, out: tuple[Head, ...], mode: str) -> Hashable:
    return ("all", inspected.key, cases.texts_sha256, out, mode)


def _texts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in titles_then_others(cases)]


def _scored(
    inspected: Inspected, cases: Sequence[Case], way: Way, job: Job, shown: Progress
) -> Scores:
    out, mode = way
    scorer = inspected.without(out, mode) if out else inspected.scorer.fresh()
    logits = sliced_logits(scorer, _texts(cases), job, shown)
    return _parted(inspected, logits, scorer.counts.truncated_titles)


def _few(
    inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str
) -> list[Scores]:
    part = inspected.part(tuple(out), mode)
    variants = [NONE] if part is None else [NONE, Variant("heads out", (part,))]
    encoded = inspected.scorer.tokenizer.encode(_texts(cases))
    truncated = sum(one.title_truncated for one in encoded)
    found = inspected.run_tokens(encoded, variants).logits
    return [_parted(inspected, logits, truncated) for logits in found]


def _parted(inspected: Inspected, logits: np.ndarray, truncated: int) -> Scores:
    titles, others = np.split(inspected.outputs(logits).ranking_score, 2)
    return Scores(titles, others, truncated)


def _measured(inspected: Inspected) -> Band:
    pairs = sample_queries(ranked(shipped_rows("dev")), BAND_PAIRS)
    logits = inspected.run([(pair.query, pair.title) for pair in pairs], [NONE]).logits[0]
    scores = inspected.outputs(logits).ranking_score
    return measured_band(scores, [pair.query for pair in pairs], shipped(DEV).name)
