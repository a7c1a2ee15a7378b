"""How well the model grades."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block, Card
from qt_bert.report.evaluation.examples import examples, worst_errors
from qt_bert.report.evaluation.judged import judged
from qt_bert.report.evaluation.learning import learning_curves
from qt_bert.report.evaluation.levels import confusion, confusion_counts, per_grade, reliability
from qt_bert.report.evaluation.metrics import metrics, resolution
from qt_bert.report.evaluation.slices import slices
from qt_bert.report.evaluation.source import read_evaluation
from qt_bert.report.evaluation.summary import summary_cards
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    evaluation = read_evaluation(folder)
    if evaluation is None:
        return None
    return (
        *judged(evaluation, folder.record),
        *examples(evaluation),
        metrics(evaluation),
        *resolution(evaluation),
        *confusion(evaluation),
        *reliability(evaluation),
        *confusion_counts(evaluation),
        *per_grade(evaluation),
        *slices(evaluation),
        *worst_errors(evaluation),
        *learning_curves(evaluation),
    )


def _cards(folder: RunFolder) -> Sequence[Card]:
    evaluation = read_evaluation(folder)
    return () if evaluation is None else summary_cards(evaluation)


SECTION = Section(
    name="evaluation", order=10, title=Text("评测", "Evaluation"), build=_build, cards=_cards
)
