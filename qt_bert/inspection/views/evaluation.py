"""How well a model grades a file of pairs, and what changes when heads are left out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.encoder.heads import Head
from qt_bert.evaluation import METRICS, Evaluation, compare, evaluate
from qt_bert.evaluation.comparison import Difference, differ_most
from qt_bert.evaluation.tables import furthest_off
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.slices import sliced_logits
from qt_bert.inspection.turns import Job
from qt_bert.pairs import Pair
from qt_bert.progress import Progress, silent
from qt_bert.results import Text
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Judged, judge_logits

RESAMPLES = 2_000
WORST = 50
SCORING, SCORING_WITHOUT, MEASURING, COMPARING = "scoring", "without", "measuring", "comparing"
STEPS = {
    SCORING: Text("打分，完整模型", "scoring, whole model"),
    SCORING_WITHOUT: Text("打分，去掉所选的头", "scoring, heads left out"),
    MEASURING: Text("计算指标与区间", "metrics and intervals"),
    COMPARING: Text("成对比较", "paired comparison"),
}
"""The steps that `evaluate_pairs` reports, in order, in words."""


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """One pair: its label, its score, and its score without the heads (None: none left out)."""

    line: int
    query: str
    title: str
    label: str | None
    predicted: str | None
    score: float
    score_without: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an evaluation found: by the whole model, and without the heads `out`, where there are any.

    `differences` are B − A with B the masked model; `worst` are the pairs furthest from their label,
    `changed` those that the heads change most.
    """

    plain: Evaluation
    worst: tuple[PairRow, ...]
    truncated: int
    mode: str
    out: tuple[Head, ...] = ()
    without: Evaluation | None = None
    differences: dict[str, Difference] | None = None
    changed: tuple[PairRow, ...] = ()


def evaluate_pairs(
    inspected: Inspected,
    pairs: Sequence[Pair],
    out: Sequence[Head],
    mode: str,
    job: Job,
    shown: Progress = silent,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Measured:
    """Evaluate the model on graded pairs as `qt-bert evaluate` does, and compare as `compare` does.

    The model runs in slices of `job`; `shown` counts as `units` says, its notes are `STEPS`. Raises
    Stopped, and ArgumentError where labels and model do not fit.
    """
    whole, truncated = _judged(
        inspected, inspected.scorer.fresh(), pairs, job, _Note(shown, SCORING)
    )
    plain = _evaluated(whole, job, _Note(shown, MEASURING), resamples, seed)
    worst = furthest_off(whole.judgements, WORST).tolist()
    if not out:
        rows = _rows(inspected, whole, None, worst)
        return Measured(mode=mode, plain=plain, worst=rows, truncated=truncated)
    scorer = inspected.without(out, mode)
    other, _ = _judged(inspected, scorer, pairs, job, _Note(shown, SCORING_WITHOUT))
    most = differ_most(whole.judgements, other.judgements, WORST).tolist()
    return Measured(
        out=tuple(out),
        mode=mode,
        plain=plain,
        without=_evaluated(other, job, _Note(shown, MEASURING), resamples, seed),
        differences=_compared(whole, other, _Note(shown, COMPARING), seed),
        worst=_rows(inspected, whole, other, worst),
        changed=_rows(inspected, whole, other, most),
        truncated=truncated,
    )


def units(pairs: int, masked: bool) -> int:
    """What `evaluate_pairs` counts: a unit a pair and model."""
    return pairs * (1 + masked)


@dataclass(frozen=True)
class _Note:
    """Progress with the name of the step."""

    shown: Progress
    step: str

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.shown.advance(amount, note or self.step)


def _judged(
    inspected: Inspected, scorer: Scorer, pairs: Sequence[Pair], job: Job, shown: Progress
) -> tuple[Judged, int]:
    shown.advance(0)
    logits = sliced_logits(scorer, [(pair.query, pair.title) for pair in pairs], job, shown)
    listed = list(pairs)
    judged = Judged(listed, logits, judge_logits(logits, listed, inspected.labels), 0)
    return judged, scorer.counts.truncated_titles


def _evaluated(judged: Judged, job: Job, shown: Progress, resamples: int, seed: int) -> Evaluation:
    shown.advance(0)
    job.check()
    return evaluate(judged.judgements, resamples=resamples, seed=seed)


def _compared(whole: Judged, other: Judged, shown: Progress, seed: int) -> dict[str, Difference]:
    """Every metric's difference; one at a time, so that the work can be stopped between two.

    The draws follow from the seed, so the figures are those of all metrics at once.
    """
    found = {}
    for name in METRICS:
        shown.advance(0)
        one = compare(whole.judgements, other.judgements, metrics=[name], seed=seed)
        found[name] = one.metrics[name]
    return found


def _rows(
    inspected: Inspected, whole: Judged, other: Judged | None, places: Sequence[int]
) -> tuple[PairRow, ...]:
    outputs = inspected.outputs(whole.logits)
    without = None if other is None else inspected.outputs(other.logits).ranking_score
    return tuple(
        PairRow(
            line=whole.pairs[at].line,
            query=whole.pairs[at].query,
            title=whole.pairs[at].title,
            label=whole.pairs[at].label,
            predicted=None if outputs.predicted is None else outputs.predicted[at],
            score=float(outputs.ranking_score[at]),
            score_without=None if without is None else float(without[at]),
        )
        for at in places
    )
