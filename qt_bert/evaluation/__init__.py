"""Metrics, intervals, paired tests and verdicts, from a model's outputs and labels alone."""

from __future__ import annotations

from qt_bert.evaluation.comparison import Comparison, compare
from qt_bert.evaluation.judgements import Judgements
from qt_bert.evaluation.judging import judge_grades, judge_levels, judge_scores
from qt_bert.evaluation.measurements import Evaluation, evaluate, evaluate_slices
from qt_bert.evaluation.metrics import METRICS
from qt_bert.evaluation.multiplicity import q_values, verdict

__all__ = [
    "METRICS",
    "Comparison",
    "Evaluation",
    "Judgements",
    "compare",
    "evaluate",
    "evaluate_slices",
    "judge_grades",
    "judge_levels",
    "judge_scores",
    "q_values",
    "verdict",
]
